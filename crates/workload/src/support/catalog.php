<?php
require __DIR__ . '/page.php';
page('catalog', 'Products', 'categories', 'products?category=' . item());
