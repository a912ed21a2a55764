<?php
require __DIR__ . '/page.php';
page('search', 'What was found', 'search?words=' . item());
