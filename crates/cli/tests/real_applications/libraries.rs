//! FastCGI as others speak it: the C library that most applications are linked with, one written in Perl that
//! shares nothing with it, and a Python application by the gateway of Python's own library. And the same C
//! program with our library, on each transport, which the server has to say was used.

use std::fmt::Display;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use crate::daemon::Daemon;
use harness::client::{Client, request};
use harness::server::{Server, Setup};
use harness::site::pattern;
use harness::variant::{Test, Variant, tests};

pub(super) const TESTS: &[Test] = tests![
    Three: libfcgi, libfcgi_of_ours, libfcgi_over_tcp, net_async_fastcgi, python;
];

/// Says what its request is, and its body again. Below `/early` it does not read that; below `/large` it says
/// five million bytes more; below `/composed` it names the file that the query is within its reply.
const IN_C: &str = r#"
#include <fcgiapp.h>
#include <stdio.h>
#include <string.h>

int main(void) {
    FCGX_Request request;
    static char piece[10000];
    FCGX_Init();
    FCGX_InitRequest(&request, 0, 0);
    while (FCGX_Accept_r(&request) == 0) {
        const char *query = FCGX_GetParam("QUERY_STRING", request.envp);
        const char *info = FCGX_GetParam("PATH_INFO", request.envp);
        FCGX_FPrintF(request.out, "Status: 201 Made\r\nContent-Type: text/plain\r\n"
            "X-Asked: %s %s %s\r\n", FCGX_GetParam("REQUEST_METHOD", request.envp), info,
            FCGX_GetParam("CONTENT_LENGTH", request.envp));
        int count;
        if (strcmp(info, "/composed") == 0) {
            FCGX_FPrintF(request.out, "X-ZeroCopy: 5/%d:%d/%d/7/2\r\n\r\nhello%s%sbye", (int)strlen(query),
                (int)strlen(query) + 5, (int)strlen(query), query, query);
            FCGX_Finish_r(&request);
            continue;
        }
        FCGX_PutS("\r\n", request.out);
        if (strcmp(info, "/early") != 0)
            while ((count = FCGX_GetStr(piece, sizeof piece, request.in)) > 0)
                FCGX_PutStr(piece, count, request.out);
        if (strcmp(info, "/large") == 0) {
            memset(piece, 'x', sizeof piece);
            for (int i = 0; i < 500; i++) FCGX_PutStr(piece, sizeof piece, request.out);
        }
        FCGX_FPrintF(request.err, "a complaint about %s", info);
        FCGX_Finish_r(&request);
    }
    return 0;
}
"#;

/// The same in Perl.
const IN_PERL: &str = r#"
use strict;
use warnings;
use IO::Async::Loop;
use IO::Socket::UNIX;
use Net::Async::FastCGI;

my $loop = IO::Async::Loop->new;
my $application = Net::Async::FastCGI->new(
    handle => IO::Socket::UNIX->new_from_fd(\*STDIN, 'r'),
    on_request => sub {
        my (undef, $request) = @_;
        $request->set_encoding(undef);
        my $info = $request->path_info;
        $request->print_stdout("Status: 201 Made\r\nContent-Type: text/plain\r\nX-Asked: "
            . join(' ', $request->method, $info, $request->param('CONTENT_LENGTH')) . "\r\n\r\n");
        $request->print_stdout($request->read_stdin // '') if $info ne '/early';
        $request->print_stdout('x' x 10_000) for 1 .. ($info eq '/large' ? 500 : 0);
        $request->print_stderr("a complaint about $info");
        $request->finish(0);
    },
);
$loop->add($application);
$loop->run;
"#;

/// Python's checker of applications and gateways, and a gateway of its own library.
const IN_PYTHON: &str = r"#!/usr/bin/python3
from wsgiref.handlers import CGIHandler
from wsgiref.util import request_uri
from wsgiref.validate import validator

def application(environ, start_response):
    body = environ['wsgi.input'].read(int(environ.get('CONTENT_LENGTH') or 0))
    asked = [environ['REQUEST_METHOD'], environ['SCRIPT_NAME'], environ['PATH_INFO'], request_uri(environ)]
    start_response('200 OK', [('Content-Type', 'text/plain'), ('X-Asked', ' '.join(asked))])
    return [body]

def gateway(environ, start_response):
    # It may be absent where it is empty (PEP 3333), which the checker does not know.
    environ.setdefault('PATH_INFO', '')
    return validator(application)(environ, start_response)

CGIHandler().run(gateway)
";

fn libfcgi(variant: &Variant) {
    for transport in ["stream", "pass-fd", "shared-memory"] {
        let setup = Setup::new(variant);
        let program = compile(&setup, IN_C);
        let server = echoes(setup, &[&program], transport);
        let [passed, shared, fell_back] = ways(&server);
        assert_eq!(
            (passed, shared, fell_back > 80),
            (0, 0, transport != "stream"),
            "it knows the stream alone"
        );
    }
}

/// On which way each reply came is the server's to say.
fn libfcgi_of_ours(variant: &Variant) {
    for transport in ["stream", "pass-fd", "shared-memory"] {
        let setup = Setup::new(variant);
        let program = compile(&setup, IN_C);
        let path = format!("LD_LIBRARY_PATH={}", ours(setup.directory()).display());
        let server = echoes(setup, &[Path::new("/usr/bin/env"), Path::new(&path), &program], transport);
        let [passed, shared, fell_back] = ways(&server);
        match transport {
            "stream" => assert_eq!([passed, shared, fell_back], [0; 3]),
            "pass-fd" => assert!(passed > 80 && shared == 0 && fell_back == 1, "all but the one with a file"),
            _ => assert!(shared > 80 && passed == 0 && fell_back == 0, "all"),
        }
    }
}

/// Over TCP connections are kept to programs that say when they wait, as those do that have our library.
fn libfcgi_over_tcp(variant: &Variant) {
    for is_ours in [true, false] {
        let setup = Setup::new(variant);
        let program = compile(&setup, IN_C);
        let path = format!("LD_LIBRARY_PATH={}", ours(setup.directory()).display());
        let with_ours = [Path::new("/usr/bin/env"), Path::new(&path), &program];
        let address = harness::free_address();
        // As many as may be in flight, and one kept by each worker.
        let _application = Daemon::spawned_over_tcp(address, &with_ours[if is_ours { 0 } else { 2 }..], 8);
        let config = pool(address, "children = 4\nkeep = 1", "program = '/srv/application'");
        let server = setup.config(&config).start();
        let mut client = server.connect();
        for length in [1, 1_000_000].repeat(5) {
            assert_eq!(client.get("/app/get").status, 201);
            let body = pattern(3, length);
            let post = request("POST", "/app/post", &[("Content-Length", &length.to_string())]);
            client.send([post.as_bytes(), &body].concat());
            assert!(client.reply().body == body);
            assert_eq!(client.get("/app/large").body.len(), 5_000_000);
        }
        // What may not be repeated, as POST, has a connection of its own.
        let reused = server.pool_count("reused");
        assert_eq!(reused > 0, is_ours && !variant.serves_one_at_a_time(), "{reused}");
        assert!(reused <= 19 && server.pool_count("failures") == 0);
    }
}

/// How many replies came by which transport, and by the stream in its place.
fn ways(server: &Server) -> [u64; 3] {
    ["passed", "shared", "fell_back"].map(|name| server.pool_count(name))
}

/// A directory with our library, in that one.
pub(super) fn ours(directory: &Path) -> PathBuf {
    let ours = directory.join("ours");
    fs::create_dir(&ours).expect("a directory");
    // target/PROFILE/deps/TEST
    let built = std::env::current_exe().expect("a program").with_file_name("libfcgi.so");
    symlink(built, ours.join("libfcgi.so.0")).expect("a link");
    ours
}

/// That program, linked with the distribution's library.
pub(super) fn compile(setup: &Setup, text: &str) -> PathBuf {
    let [source, program] = ["application.c", "application"].map(|name| setup.directory().join(name));
    fs::write(&source, text).expect("a file");
    let compiled = Command::new("cc").arg("-o").args([&program, &source]).arg("-lfcgi").status();
    assert!(compiled.expect("cc runs").success(), "libfcgi-dev is missing: scripts/install-test-tools");
    program
}

fn net_async_fastcgi(variant: &Variant) {
    let setup = Setup::new(variant);
    let source = setup.directory().join("application.pl");
    fs::write(&source, IN_PERL).expect("a file");
    // Debian's, which has the package.
    echoes(setup, &[Path::new("/usr/bin/perl"), &source], "stream");
}

/// An application that is one process, which `spawn-fcgi` starts, and whose replies come that way.
fn echoes(setup: Setup, program: &[&Path], transport: &str) -> Server {
    let socket = setup.directory().join("application.sock");
    let _application = Daemon::spawned(&socket, program);
    let files = setup.directory().join("files");
    fs::create_dir(&files).expect("a directory");
    fs::write(files.join("a"), "0123456789").expect("a file");
    let of_pool = format!(
        "children = 1\ntransport = '{transport}'\nsend_files = {{ '/files/' = '{}' }}",
        files.display()
    );
    let address = format_args!("unix:{}", socket.display());
    let server = setup.config(&pool(address, &of_pool, "program = '/srv/application'")).start();
    let mut client = server.connect();
    for length in [0, 1, 65_535, 65_536, 1_000_000] {
        let body = pattern(3, length);
        let post = request("POST", "/app/a%20b", &[("Content-Length", &length.to_string())]);
        let reply = {
            client.send([post.as_bytes(), &body].concat());
            client.reply()
        };
        assert_eq!((reply.status, reply.need("X-Asked")), (201, &*format!("POST /a b {length}")));
        assert!(reply.body == body, "{length}: {reply:?}");
    }
    let large = client.get("/app/large");
    assert_eq!((large.status, large.body.len()), (201, 5_000_000));
    // It answers without a look at the body.
    let post = request("POST", "/app/early", &[("Content-Length", "1000000")]);
    client.send([post.as_bytes(), &pattern(3, 1_000_000)].concat());
    let early = client.reply();
    assert_eq!((early.status, early.body.len(), early.closes()), (201, 0, false));
    // Fields that take more than one record.
    let long = "x".repeat(7000);
    let fields: Vec<_> = ["A", "B", "C", "D"].map(|name| (name, &*long)).to_vec();
    assert_eq!(client.fetch("GET", "/app/fields", &fields).status, 201);
    assert_eq!(client.fetch("HEAD", "/app/head", &[]).status, 201);
    let address = server.address;
    thread::scope(|scope| {
        for number in 0..8 {
            scope.spawn(move || {
                let mut client = Client::connect(address).taking_chunks();
                for _ in 0..10 {
                    let reply = client.get(&format!("/app/{number}"));
                    assert_eq!(reply.need("X-Asked").trim_end(), format!("GET /{number}"));
                }
            });
        }
    });
    server.wait_for_line(|line| line.contains("a complaint about /a b") && line.contains("POST /app/a%20b"));
    if program.len() != 2 {
        // The one in C.
        let composed = client.get(&format!("/app/composed?{}", files.join("a").display()));
        assert_eq!((composed.status, &*composed.text()), (201, "hello012345678978bye"));
    }
    assert_eq!(server.pool_count("failures"), 0);
    server
}

/// A pool of that server, for all below `/app/`.
fn pool(server: impl Display, of_pool: &str, route: &str) -> String {
    format!(
        "[[pools]]\nname = 'app'\nservers = ['{server}']\n{of_pool}\n\
         [[routes]]\npath = '/app/**'\npool = 'app'\n{route}\n"
    )
}

fn python(variant: &Variant) {
    let setup = Setup::new(variant).file("app/application.py", IN_PYTHON);
    let script: PathBuf = setup.root().join("app/application.py");
    fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).expect("a mode");
    let socket = setup.directory().join("fcgiwrap.sock");
    let _fcgiwrap = Daemon::fcgiwrap(&socket, 1);
    let address = format_args!("unix:{}", socket.display());
    let server: Server = setup.config(&pool(address, "children = 1", "scripts = '.py'")).start();
    let mut client = server.connect();
    for (target, asked) in [
        ("/app/application.py", "/app/application.py  http://test/app/application.py"),
        (
            "/app/application.py/x%20y?a=b",
            "/app/application.py /x y http://test/app/application.py/x%20y?a=b",
        ),
    ] {
        client.send(request("PUT", target, &[("Content-Length", "5"), ("Content-Type", "text/plain")]));
        client.send("hello");
        let reply = client.reply();
        let expected = (200, format!("PUT {asked}"), "hello".to_owned());
        assert_eq!((reply.status, reply.need("X-Asked").to_owned(), reply.text()), expected);
    }
    // The source of a program is nobody's.
    assert_eq!(server.get("/app/%2e/application.PY").status, 404);
    assert_eq!(server.pool_count("failures"), 0);
}
