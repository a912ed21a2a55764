#!/bin/bash
# Prints the memory of an idle connection over TLS: how much sluice, nginx and HAProxy grow with 2,000 of them, after
# 200 others. Root; a minute. Needs nginx, haproxy, and sluice in PATH.
set -euo pipefail
work=$(mktemp -d)
cd "$work"
started=()
trap 'kill "${started[@]}" 2> /dev/null || true; rm -rf "$work"' EXIT
mkdir www
head -c 1024 /dev/urandom > www/1k
head -c 102400 /dev/urandom > www/100k
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 30 -subj /CN=localhost \
    -addext subjectAltName=DNS:localhost -keyout c.key -out c.pem 2> /dev/null
cat c.pem c.key > both.pem
cat > nginx.conf << END
daemon off; pid $work/nginx.pid; error_log stderr error; user root; worker_processes 1; worker_rlimit_nofile 20000;
events { worker_connections 9000; use epoll; }
http { access_log off; sendfile on; keepalive_requests 1000000000; keepalive_timeout 3600s;
open_file_cache max=1000 inactive=3600s; ssl_certificate $work/c.pem; ssl_certificate_key $work/c.key;
ssl_protocols TLSv1.3; ssl_ecdh_curve X25519; ssl_session_cache off; ssl_session_tickets on; ssl_buffer_size 64k;
output_buffers 1 128k; server { listen 127.0.0.1:9443 ssl backlog=4096; root $work/www; } }
END
cat > haproxy.cfg << END
global
 nbthread 1
 maxconn 9000
 ssl-default-bind-curves X25519
 tune.bufsize 131072
defaults
 mode http
 timeout client 3600s
 timeout connect 5s
 timeout server 3600s
frontend f
 bind 127.0.0.1:9445 ssl crt $work/both.pem ssl-min-ver TLSv1.3
 http-request return status 200 content-type application/octet-stream file $work/www/1k if { path /1k }
 http-request return status 200 content-type application/octet-stream file $work/www/100k if { path /100k }
END
cat > sluice.toml << END
root = "$work/www"
listen_tls = "127.0.0.1:9444"
certificate = "$work/c.pem"
key = "$work/c.key"
architecture = "sped"
small_file = "128 KiB"
access_log = "off"
END
taskset -c 0 nginx -c "$work/nginx.conf" & nginx=$!
taskset -c 0 haproxy -db -f haproxy.cfg > /dev/null 2>&1 & haproxy=$!
taskset -c 0 sluice serve --config sluice.toml > /dev/null 2>&1 & sluice=$!
started=("$nginx" "$haproxy" "$sluice")
sleep 2

python3 - "$sluice" "$nginx" "$haproxy" << 'END'
import resource, socket, ssl, subprocess, sys, time
resource.setrlimit(resource.RLIMIT_NOFILE, (20000, 20000))
context = ssl._create_unverified_context()
def memory(process):
    children = subprocess.run(['pgrep', '-P', process], capture_output=True, text=True).stdout.split()
    lines = (line.split() for one in [process, *children] for line in open(f'/proc/{one}/smaps_rollup'))
    return sum(int(line[1]) for line in lines if line[0] == 'Pss_Anon:')
def connect(port):
    client = context.wrap_socket(socket.create_connection(('127.0.0.1', port)))
    client.sendall(b'GET /1k HTTP/1.1\r\nHost: localhost\r\n\r\n')
    count = 0
    while count < 1024:
        count += len(client.recv(4096))
    return client
for name, port, process in zip(['sluice', 'nginx', 'haproxy'], [9444, 9443, 9445], sys.argv[1:]):
    first = [connect(port) for _ in range(200)]
    before = memory(process)
    idle = [connect(port) for _ in range(2000)]
    time.sleep(1)
    print(name, round((memory(process) - before) * 1024 / len(idle)), 'bytes for an idle connection')
END
