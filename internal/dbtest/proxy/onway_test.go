package proxy

import (
	"io"
	"net"
	"testing"
	"time"
)

// TestOnTheWay: what happens to all connections of a moment also happens to one that had not reached the server by then.
func TestOnTheWay(t *testing.T) {
	for _, c := range []struct {
		name   string
		happen func(*Proxy)
		ends   bool // the client is told
	}{
		{"cut", (*Proxy).Cut, true},
		{"black hole", (*Proxy).BlackHole, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			server, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer server.Close()
			p := New(t, Raw, server.Addr().String())
			dialling, goOn := make(chan struct{}), make(chan struct{})
			p.mu.Lock()
			p.dial = func(network, address string) (net.Conn, error) {
				close(dialling)
				<-goOn
				return net.Dial(network, address)
			}
			p.mu.Unlock()
			client, err := net.Dial("tcp", p.Addr())
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			<-dialling
			c.happen(p)
			close(goOn)
			if c.ends {
				if _, err := io.ReadAll(client); err == nil {
					t.Error("the connection was not reset")
				}
				return
			}
			heard := make(chan int, 8)
			go func() {
				for {
					reached, err := server.Accept()
					if err != nil {
						return
					}
					go func() {
						defer reached.Close()
						if n, _ := reached.Read(make([]byte, 1)); n > 0 { // none: somebody who looks for whoever had the port before
							heard <- n
						}
					}()
				}
			}()
			if _, err := client.Write([]byte("x")); err != nil {
				t.Fatal(err)
			}
			select {
			case n := <-heard:
				t.Errorf("%d bytes through a black hole", n)
			case <-time.After(50 * time.Millisecond): // if it comes, it comes at once
			}
		})
	}
}
