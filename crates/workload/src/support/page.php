<?php
// What the pages of Support have in common: they ask the back end, make tables of what it says, and fill up with
// text until they have the bytes that the benchmark's page has.

// What the back end says to a question: rows of four fields. BESIM is its ADDRESS:PORT.
function ask(string $question): array
{
    $besim = getenv('BESIM');
    if ($besim === false) {
        fail(500, "BESIM is not set; allowed: ADDRESS:PORT of 'sluicelab besim'");
    }
    $how = stream_context_create(['http' => ['header' => 'Connection: close', 'timeout' => 5]]);
    $said = @file_get_contents("http://$besim/$question", false, $how);
    if ($said === false) {
        fail(502, "the back end at $besim does not answer");
    }
    $rows = explode("\n", rtrim($said, "\n"));
    return array_map(fn (string $row): array => explode("\t", $row), $rows);
}

function fail(int $status, string $why): never
{
    http_response_code($status);
    exit(htmlspecialchars($why) . "\n");
}

// Which category, product or file the client asks for.
function item(): int
{
    return max(0, (int) ($_GET['item'] ?? 0));
}

// The page called $name, with a table for each of the questions. The rest of its bytes is text from the static
// file of the same size, which takes its place in the modified workload.
function page(string $name, string $title, string ...$questions): void
{
    $page = "<!DOCTYPE html>\n<html><head><title>$title</title></head><body>\n<h1>$title</h1>\n";
    foreach ($questions as $question) {
        $page .= "<table>\n";
        foreach (ask($question) as [$number, $subject, $version, $text]) {
            $page .= '<tr><td><a href="product.php?item=' . (int) $number . '">' . htmlspecialchars($subject)
                . '</a></td><td>' . htmlspecialchars($version) . '</td><td>' . htmlspecialchars(ucfirst($text))
                . "</td></tr>\n";
        }
        $page .= "</table>\n";
    }
    $page .= '<pre>';
    $end = "</pre></body></html>\n";
    $file = __DIR__ . "/static/$name.html";
    $filling = filesize($file) - strlen($page) - strlen($end);
    if ($filling < 0) {
        fail(500, "$name is longer than it may be");
    }
    echo $page, file_get_contents($file, length: $filling), $end;
}
