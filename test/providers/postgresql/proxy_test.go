package postgresql

import (
	"bytes"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"
)

// proxy stands between the provider and a server, and loses the answer to a
// statement: the server carries it out, and the connection breaks before that is
// heard.
type proxy struct {
	port   int
	target string

	mu sync.Mutex
	// words are those of statements whose answer is lost, and how many times yet.
	words map[string]int
	lost  int
	// late is a word of a statement that the client sends so late that the server has ended the session meanwhile;
	// waited receives whether it has.
	late   string
	waited chan bool
}

func newProxy(t *testing.T, target int, words map[string]int) *proxy {
	t.Helper()
	listen, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listen.Close() })
	p := &proxy{port: listen.Addr().(*net.TCPAddr).Port, target: net.JoinHostPort("127.0.0.1", strconv.Itoa(target)), words: words}
	go func() {
		for {
			client, err := listen.Accept()
			if err != nil {
				return
			}
			go p.serve(client)
		}
	}()
	return p
}

// loses reports whether the answer to what is sent is to be lost.
func (p *proxy) loses(sent []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for word, times := range p.words {
		if times > 0 && bytes.Contains(sent, []byte(word)) {
			p.words[word]--
			p.lost++
			return true
		}
	}
	return false
}

// isLate reports whether what is sent is to arrive late, which it does once.
func (p *proxy) isLate(sent []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.late == "" || !bytes.Contains(sent, []byte(p.late)) {
		return false
	}
	p.late = ""
	return true
}

func (p *proxy) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lost
}

func (p *proxy) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		return
	}
	defer server.Close()
	var mu sync.Mutex
	losing := false
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		defer server.Close()
		buffer := make([]byte, 1<<16)
		for {
			n, err := client.Read(buffer)
			if err != nil {
				return
			}
			if p.loses(buffer[:n]) {
				mu.Lock()
				losing = true
				mu.Unlock()
			}
			if p.isLate(buffer[:n]) {
				select {
				case <-ended:
					p.waited <- true
				case <-time.After(time.Minute):
					p.waited <- false
				}
			}
			if _, err := server.Write(buffer[:n]); err != nil {
				return
			}
		}
	}()
	buffer := make([]byte, 1<<16)
	for {
		n, err := server.Read(buffer)
		if err != nil {
			return
		}
		mu.Lock()
		lost := losing
		mu.Unlock()
		if lost {
			return // it was carried out: this is the answer
		}
		if _, err := client.Write(buffer[:n]); err != nil {
			return
		}
	}
}
