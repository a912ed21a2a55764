<?php
require __DIR__ . '/page.php';
page('product', 'A product', 'product?product=' . item());
