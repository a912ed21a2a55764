// A client of net/http for a test: client URL VERSION. It prints a line for each thing that it does.
package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"os"
)

func check(err error) {
	if err != nil {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
}

// What came of a request.
type reply struct {
	status   int
	body     []byte
	protocol string
	version  uint16
	kept     bool
	resumed  bool
}

func ask(client *http.Client, method, url, byteRange string, body io.Reader) reply {
	var got reply
	request, err := http.NewRequest(method, url, body)
	check(err)
	if byteRange != "" {
		request.Header.Set("Range", byteRange)
	}
	trace := &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) { got.kept = info.Reused }}
	response, err := client.Do(request.WithContext(httptrace.WithClientTrace(request.Context(), trace)))
	check(err)
	got.body, err = io.ReadAll(response.Body)
	check(err)
	check(response.Body.Close())
	got.status, got.protocol = response.StatusCode, response.Proto
	got.version, got.resumed = response.TLS.Version, response.TLS.DidResume
	return got
}

func tell(name string, got reply) {
	versions := map[uint16]string{tls.VersionTLS12: "1.2", tls.VersionTLS13: "1.3"}
	fmt.Printf("%s: %d %d %s TLS %s kept %t resumed %t\n", name, got.status, len(got.body), got.protocol,
		versions[got.version], got.kept, got.resumed)
}

func main() {
	url, version := os.Args[1], map[string]uint16{"1.2": tls.VersionTLS12, "1.3": tls.VersionTLS13}[os.Args[2]]
	expected, err := os.ReadFile("expected.bin")
	check(err)
	pem, err := os.ReadFile("authority.pem")
	check(err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)

	// An authority that it does not know.
	stranger := &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: x509.NewCertPool()},
	}}
	_, err = stranger.Get(url + "/hello.txt")
	var unknown x509.UnknownAuthorityError
	fmt.Println("refused without its authority:", errors.As(err, &unknown))

	transport := &http.Transport{
		TLSClientConfig: &tls.Config{
			RootCAs:            roots,
			MinVersion:         version,
			MaxVersion:         version,
			ClientSessionCache: tls.NewLRUClientSessionCache(8),
		},
		// It offers HTTP/2, and takes HTTP/1.1.
		ForceAttemptHTTP2: true,
	}
	client := &http.Client{Transport: transport}
	tell("first", ask(client, "GET", url+"/hello.txt", "", nil))
	tell("second", ask(client, "GET", url+"/hello.txt", "", nil))
	whole := ask(client, "GET", url+"/large.bin", "", nil)
	if !bytes.Equal(whole.body, expected) {
		check(errors.New("other bytes"))
	}
	tell("large", whole)
	part := ask(client, "GET", url+"/large.bin", "bytes=100000-100999", nil)
	if !bytes.Equal(part.body, expected[100000:101000]) {
		check(errors.New("other bytes of a range"))
	}
	tell("range", part)
	transport.CloseIdleConnections()
	tell("again", ask(client, "GET", url+"/hello.txt", "", nil))

	// A body of unknown length. Whether the connection is kept is the server's choice.
	unsized := io.MultiReader(bytes.NewReader(make([]byte, 1000)))
	refused := ask(client, "PUT", url+"/new.bin", "", unsized)
	fmt.Printf("refused: %d - %s TLS %s kept - resumed -\n", refused.status, refused.protocol, os.Args[2])

	replies := make(chan reply)
	for range [20]int{} {
		go func() { replies <- ask(client, "GET", url+"/large.bin", "", nil) }()
	}
	good, size := 0, 0
	for range [20]int{} {
		got := <-replies
		if bytes.Equal(got.body, expected) {
			good++
		}
		size += len(got.body)
	}
	fmt.Printf("at once: %d of 20, %d bytes\n", good, size)
}
