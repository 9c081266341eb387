package issuer_test

import (
	"crypto/x509"
	"errors"
	"testing"
	"time"

	"github.com/espalier-dev/espalier/internal/kube/issuer"
)

func TestCheck(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	const day = 24 * time.Hour
	authority, err := issuer.NewAuthority("ours", 100*day, now)
	if err != nil {
		t.Fatal(err)
	}
	other, err := issuer.NewAuthority("theirs", 100*day, now)
	if err != nil {
		t.Fatal(err)
	}
	client, server := []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	service := issuer.Leaf{Name: "a", Hosts: []string{"a.svc", "127.0.0.1"}, Usage: server}
	for name, tc := range map[string]struct {
		issued, wanted issuer.Leaf
		by             issuer.Authority
		after          time.Duration
		valid          bool
	}{
		"as it was issued":                        {service, service, authority, 0, true},
		"for one of its hosts":                    {service, issuer.Leaf{Hosts: []string{"127.0.0.1"}, Usage: server}, authority, 0, true},
		"for another host":                        {service, issuer.Leaf{Hosts: []string{"b.svc"}, Usage: server}, authority, 0, false},
		"for another usage":                       {service, issuer.Leaf{Hosts: service.Hosts, Usage: client}, authority, 0, false},
		"of another authority":                    {service, service, other, 0, false},
		"a client of another name":                {issuer.Leaf{Name: "a", Hosts: []string{"a"}, Usage: client}, issuer.Leaf{Hosts: []string{"b"}, Usage: client}, authority, 0, true},
		"a server and client, with another host":  {issuer.Leaf{Hosts: []string{"a"}, Usage: append(client, server...)}, issuer.Leaf{Hosts: []string{"b"}, Usage: append(client, server...)}, authority, 0, false},
		"while more than a third is left":         {service, service, authority, 6 * day, true},
		"after its end":                           {service, service, authority, 11 * day, false},
		"before it is valid, by more than clocks": {service, service, authority, -2 * time.Hour, false},
	} {
		certificate, key, err := tc.by.Issue(tc.issued, 10*day, now)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := issuer.Check(certificate, key, authority.Certificate, tc.wanted, now.Add(tc.after)); (err == nil) != tc.valid {
			t.Errorf("%s: %v", name, err)
		}
	}
	certificate, key, err := authority.Issue(service, 9*day, now)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := issuer.Check(certificate, key, authority.Certificate, service, now.Add(7*day)); !errors.Is(err, issuer.ErrExpiring) {
		t.Errorf("a third of its validity is left: %v", err)
	}
}
