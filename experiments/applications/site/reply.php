<?php echo str_repeat('=', (int) $_GET['bytes']);
