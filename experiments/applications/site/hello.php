<?php echo 'Hello, world!';
