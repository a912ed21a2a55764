<?php
require __DIR__ . '/page.php';
page('file-catalog', 'Files for a product', 'product?product=' . item(), 'files?product=' . item());
