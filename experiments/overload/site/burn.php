<?php
// Computes for 10 ms of CPU time.
function used()
{
    $of = getrusage();
    $microseconds = $of['ru_utime.tv_usec'] + $of['ru_stime.tv_usec'];
    return $of['ru_utime.tv_sec'] + $of['ru_stime.tv_sec'] + $microseconds / 1e6;
}
$begun = used();
while (used() - $begun < 0.01) {
    hash('sha256', 'something');
}
echo 'done';
