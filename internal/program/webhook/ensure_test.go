package webhook

import (
	"context"
	"crypto/x509"
	"strings"
	"testing"
	"time"
)

// recordingStore is a Store in memory, which counts what is saved.
type recordingStore struct {
	Pair
	saves int
}

func (s *recordingStore) Load(context.Context) (Pair, error) { return s.Pair, nil }

func (s *recordingStore) Save(_ context.Context, p Pair) error {
	s.Pair = p
	s.saves++
	return nil
}

func TestACertificateIsIssuedOnlyIfNoOtherOneCanServe(t *testing.T) {
	const (
		expiring = validity - renewBefore + time.Minute
		nearEnd  = validity - renewBefore/2
	)
	hosts := []string{"espalier.prod.svc"}
	follower := func() bool { return false }
	for name, tc := range map[string]struct {
		age      time.Duration
		hosts    []string
		isLeader func() bool
		issues   bool
		// serves is whether the stored certificate is served, also if another one was issued.
		serves bool
		after  time.Duration
	}{
		"a fresh certificate is served":                                         {0, hosts, nil, false, true, checkInterval},
		"an expiring certificate is served until the new authorities are known": {expiring, hosts, nil, true, true, rotationDelay},
		"a follower leaves an expiring certificate to the leader":               {expiring, hosts, follower, false, true, checkInterval},
		"a follower replaces a certificate that the leader has not replaced":    {nearEnd, hosts, follower, true, true, rotationDelay},
		"a certificate for another host is replaced at once":                    {0, []string{"espalier.dev.svc"}, nil, true, false, checkInterval},
		"an expired certificate is replaced at once, by a follower too":         {validity + time.Hour, hosts, follower, true, false, checkInterval},
	} {
		t.Run(name, func(t *testing.T) {
			stored, err := issue(hosts, nil, at)
			if err != nil {
				t.Fatal(err)
			}
			store := &recordingStore{Pair: stored}
			s := &Server{Options: Options{Store: store}, IsLeader: tc.isLeader, Now: func() time.Time { return at.Add(tc.age) }}
			authorities, after, err := s.ensureCertificate(t.Context(), tc.hosts)
			if err != nil {
				t.Fatal(err)
			}
			if issues := store.saves == 1; issues != tc.issues || after != tc.after {
				t.Errorf("issued %t and checks after %s, want %t and %s", issues, after, tc.issues, tc.after)
			}
			old, err := stored.load(hosts, at)
			if err != nil {
				t.Fatal(err)
			}
			if serves := s.serving.Load().Leaf.Equal(old.Leaf); serves != tc.serves {
				t.Errorf("serves the stored certificate: %t, want %t", serves, tc.serves)
			}
			roots := x509.NewCertPool()
			roots.AppendCertsFromPEM(authorities)
			if _, err := s.serving.Load().Leaf.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: s.Now()}); err != nil {
				t.Errorf("the authorities do not verify what is served: %v", err)
			}
		})
	}
}

func TestAMountedCertificateIsNeverReplaced(t *testing.T) {
	hosts := []string{"espalier.prod.svc"}
	dir := t.TempDir()
	pair, err := issue(hosts, nil, at)
	if err != nil {
		t.Fatal(err)
	}
	if err := Directory(dir).Save(t.Context(), pair); err != nil {
		t.Fatal(err)
	}
	s := &Server{Options: Options{Store: Mounted(dir)}, Now: func() time.Time { return at.Add(validity - renewBefore + time.Minute) }}
	if _, after, err := s.ensureCertificate(t.Context(), hosts); err != nil || after != mountedInterval {
		t.Errorf("an expiring certificate: checks after %s, %v; want %s", after, err, mountedInterval)
	}
	if _, _, err := s.ensureCertificate(t.Context(), []string{"espalier.dev.svc"}); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("a certificate for another host: %v; want an error with the directory", err)
	}
}
