<?php
require __DIR__ . '/page.php';
page('home', 'Support', 'categories');
