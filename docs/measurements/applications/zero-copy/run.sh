#!/bin/bash
# Measures send.c: six rounds, in each all ways and sizes in an order drawn anew, on loopback and between two network
# namespaces. The sender has CPU 0, the receiver CPU 1. Root; four minutes. Writes results.csv.
set -euo pipefail
cd "$(dirname "$0")"
cc -O2 send.c -o /tmp/zero-copy-send
started=()
trap 'kill "${started[@]}" 2> /dev/null || true; ip netns del zero-copy 2> /dev/null || true; rm -f /tmp/zero-copy-send' EXIT
ip netns add zero-copy
ip link add zc0 type veth peer name zc1 netns zero-copy
ip addr add 10.99.0.1/24 dev zc0
ip link set zc0 up
ip -n zero-copy addr add 10.99.0.2/24 dev zc1
ip -n zero-copy link set zc1 up
taskset -c 1 /tmp/zero-copy-send receive 127.0.0.1 9917 & started+=($!)
taskset -c 1 ip netns exec zero-copy /tmp/zero-copy-send receive 10.99.0.2 9917 & started+=($!)
sleep 0.5
echo 'round,network,way,bytes,replies_per_s,cpu_us' > results.csv
for round in 1 2 3 4 5 6; do
    for network in loopback veth; do for way in copy zerocopy splice fresh copy-again; do
        for bytes in 32768 131072 1048576 4194304; do echo "$network $way $bytes"; done
    done; done | shuf | while read -r network way bytes; do
        address=127.0.0.1
        [[ $network == veth ]] && address=10.99.0.2
        figures=$(taskset -c 0 /tmp/zero-copy-send "${way%-again}" $address 9917 "$bytes" 1)
        echo "$round,$network,$way,$bytes,$figures"
    done >> results.csv
    echo "round $round of 6" >&2
done
