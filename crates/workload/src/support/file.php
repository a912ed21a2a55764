<?php
require __DIR__ . '/page.php';
page('file', 'A file', 'file?file=' . item());
