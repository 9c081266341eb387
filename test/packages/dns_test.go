package packages

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"

	"golang.org/x/net/dns/dnsmessage"
)

// names is the DNS of the cluster: Services by namespace.
var names = &dns{namespaces: map[string]func(service string) []netip.Addr{}}

type dns struct {
	mu         sync.Mutex
	namespaces map[string]func(service string) []netip.Addr
}

// serve answers for all Services of a namespace.
func (d *dns) serve(namespace string, addresses func(service string) []netip.Addr) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.namespaces[namespace] = addresses
}

// dial returns a connection to the DNS, which is in memory.
func (d *dns) dial(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	go d.converse(server)
	return client, nil
}

// converse answers questions as over TCP, with a length before each message.
func (d *dns) converse(c net.Conn) {
	defer c.Close()
	for {
		var length [2]byte
		if _, err := io.ReadFull(c, length[:]); err != nil {
			return
		}
		raw := make([]byte, binary.BigEndian.Uint16(length[:]))
		if _, err := io.ReadFull(c, raw); err != nil {
			return
		}
		var m dnsmessage.Message
		if err := m.Unpack(raw); err != nil || len(m.Questions) != 1 {
			return
		}
		m.Response, m.Additionals = true, nil
		addresses := d.find(m.Questions[0].Name.String())
		if len(addresses) == 0 {
			m.RCode = dnsmessage.RCodeNameError
		}
		for _, a := range addresses {
			if m.Questions[0].Type == dnsmessage.TypeA {
				m.Answers = append(m.Answers, dnsmessage.Resource{
					Header: dnsmessage.ResourceHeader{Name: m.Questions[0].Name, Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET}, Body: &dnsmessage.AResource{A: a.As4()},
				})
			}
		}
		out, err := m.Pack()
		if err != nil {
			return
		}
		if _, err := c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(out))), out...)); err != nil {
			return
		}
	}
}

func (d *dns) find(name string) []netip.Addr {
	parts := strings.Split(strings.TrimSuffix(name, "."), ".")
	if len(parts) != 2 {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if of := d.namespaces[parts[1]]; of != nil {
		return of(parts[0])
	}
	return nil
}
