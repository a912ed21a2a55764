<?php
// Waits for something that is slow, such as a database: 50 ms.
usleep(50000);
echo 'done';
