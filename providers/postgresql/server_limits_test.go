package postgresql

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/espalier-dev/espalier/sdk/managed/external"
)

// startFakeServer starts a server that answers the first packet of each client with some bytes,
// and then nothing. The channel receives what each client sends after that.
func startFakeServer(t *testing.T, answer []byte) (s server, received <-chan string) {
	t.Helper()
	sent := make(chan string, 10)
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				var size [4]byte
				if _, err := io.ReadFull(conn, size[:]); err == nil {
					_, _ = io.CopyN(io.Discard, conn, int64(binary.BigEndian.Uint32(size[:]))-4)
				}
				_, _ = conn.Write(answer)
				rest, _ := io.ReadAll(conn)
				sent <- string(rest)
			}()
		}
	}()
	return server{Host: "127.0.0.1", Port: uint16(l.Addr().(*net.TCPAddr).Port), User: "u", Password: "my word", Database: "d", TLS: "disable", Connections: 4, Timeout: time.Minute}, sent
}

// message returns a message of PostgreSQL's protocol.
func message(kind byte, body string) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{kind}, uint32(len(body)+4)), body...)
}

func TestALongErrorOfAServerIsTruncated(t *testing.T) {
	s, _ := startFakeServer(t, message('E', "SFATAL\x00VFATAL\x00C28000\x00M"+strings.Repeat("no! ", 1<<20)+"\x00\x00"))
	sess := &session{server: s, servers: &pools{}}
	defer sess.close()
	err := sess.read(t.Context(), "", func(context.Context, *pgx.Conn) error { return nil })
	if err == nil || len(notSentError(err).Message) > 2*maxText || len(truncatedError{err}.Error()) > 2*maxText {
		t.Error("the error is not truncated")
	}
}

// TestAPasswordIsNotSentInClearText connects to a server that requests it.
func TestAPasswordIsNotSentInClearText(t *testing.T) {
	s, received := startFakeServer(t, message('R', "\x00\x00\x00\x03"))
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err := s.dial(ctx, "d")
	if received := <-received; strings.Contains(received, s.Password) {
		t.Error("the password was sent")
	}
	if err == nil || strings.Contains(err.Error(), s.Password) {
		t.Errorf("want an error without the password, got %v", err)
	}
}

// TestMessagesOfAServerHaveASizeLimit connects to a server that announces half a gigabyte.
func TestMessagesOfAServerHaveASizeLimit(t *testing.T) {
	s, _ := startFakeServer(t, append([]byte{'E'}, 0x20, 0, 0, 0))
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if _, err := s.dial(ctx, "d"); err == nil || ctx.Err() != nil || !strings.Contains(err.Error(), "expected at most") {
		t.Errorf("want an error about the size, got %v", err)
	}
}

// TestHangingServersOfANamespaceDoNotBlockAllWorkers starts more calls than the limit, all of which
// hang.
func TestHangingServersOfANamespaceDoNotBlockAllWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := &pools{}
		hang := make(chan struct{})
		var ends []chan error
		for range 3 * maxPerNamespace {
			end := make(chan error, 1)
			ends = append(ends, end)
			go func() {
				end <- all.withSlot(t.Context(), server{Namespace: "team"}, func() error { <-hang; return nil })
			}()
		}
		<-time.After(2 * maxQueueTime)
		synctest.Wait()
		rejected := 0
		for _, end := range ends {
			select {
			case err := <-end:
				if rejected++; err == nil || !strings.Contains(err.Error(), "namespace team") {
					t.Errorf("want an error that names the namespace, got %v", err)
				}
			default:
			}
		}
		if rejected != 2*maxPerNamespace {
			t.Errorf("%d calls failed", rejected)
		}
		for _, other := range []server{{Namespace: "another"}, {}} {
			if err := all.withSlot(t.Context(), other, func() error { return errors.ErrUnsupported }); !errors.Is(err, errors.ErrUnsupported) {
				t.Errorf("another namespace gets no slot: %v", err)
			}
		}
		close(hang)
		synctest.Wait()
		if err := all.withSlot(t.Context(), server{Namespace: "team"}, func() error { return nil }); err != nil {
			t.Errorf("the slots are not released: %v", err)
		}
	})
}

// TestAHangingSharedServerDoesNotBlockAllWorkers starts more calls with a ClusterProviderConfig than it
// has connections. Those of another server, or of one that answers, are made.
func TestAHangingSharedServerDoesNotBlockAllWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := &pools{}
		hang := make(chan struct{})
		ends := make(chan error, 16)
		for range cap(ends) {
			go func() {
				ends <- all.withSlot(t.Context(), server{Host: "hangs", Connections: 4}, func() error { <-hang; return nil })
			}()
		}
		<-time.After(2 * maxQueueTime)
		synctest.Wait()
		if len(ends) != 12 {
			t.Fatalf("%d calls have ended, and 12 have no connection", len(ends))
		}
		for range 12 {
			if err := <-ends; err == nil || !strings.Contains(err.Error(), "4 calls of hangs:0 have no answer") {
				t.Errorf("want an error that names the server, got %v", err)
			}
		}
		if err := all.withSlot(t.Context(), server{Host: "answers", Connections: 4}, func() error { return errors.ErrUnsupported }); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("another server gets no slot: %v", err)
		}
		close(hang)
		synctest.Wait()
		if err := all.withSlot(t.Context(), server{Host: "hangs", Connections: 4}, func() error { return nil }); err != nil {
			t.Errorf("the slots are not released: %v", err)
		}
	})
}

// TestACallDoesNotWaitForServersThatAreKnownToHang makes further calls after the limit was reached for a while. They fail at
// once, until an answer comes.
func TestACallDoesNotWaitForServersThatAreKnownToHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := &pools{}
		team := server{Namespace: "team"}
		hang := make(chan struct{})
		for range maxPerNamespace {
			go func() { _ = all.withSlot(t.Context(), team, func() error { <-hang; return nil }) }()
		}
		synctest.Wait()
		took := func() time.Duration {
			began := time.Now()
			if err := all.withSlot(t.Context(), team, func() error { return nil }); err == nil {
				t.Error("it was made")
			}
			return time.Since(began)
		}
		if got := took(); got != maxQueueTime {
			t.Errorf("the first call has waited %s", got)
		}
		if got := took(); got != 0 {
			t.Errorf("the next one has waited %s", got)
		}
		hang <- struct{}{} // one is answered, and another one hangs
		synctest.Wait()
		go func() { _ = all.withSlot(t.Context(), team, func() error { <-hang; return nil }) }()
		synctest.Wait()
		if got := took(); got != maxQueueTime {
			t.Errorf("after an answer, a call has waited %s", got)
		}
		close(hang)
	})
}

// TestALoginShowsAPasswordEvenIfTheSessionIsRefused has a server that reports an error before and after
// it has accepted the password.
func TestALoginShowsAPasswordEvenIfTheSessionIsRefused(t *testing.T) {
	accepted := message('R', "\x00\x00\x00\x00")
	fatal := func(code string) []byte { return message('E', "SFATAL\x00VFATAL\x00C"+code+"\x00Mno\x00\x00") }
	cases := map[string]struct {
		answer []byte
		want   external.Answer
	}{
		"the password is invalid":                        {answer: fatal("28P01"), want: external.No},
		"the server has no free connection":              {answer: fatal("53300"), want: external.CannotTell},
		"the role may not connect to the database":       {answer: append(accepted[:len(accepted):len(accepted)], fatal("42501")...), want: external.Yes},
		"the role has all its connections in use":        {answer: append(accepted[:len(accepted):len(accepted)], fatal("53300")...), want: external.Yes},
		"an error with the text of an accepted password": {answer: message('E', "SFATAL\x00VFATAL\x00C53300\x00M\nB\tAuthenticationOk\t8\x00\x00"), want: external.CannotTell},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s, _ := startFakeServer(t, tc.answer)
			sess := &session{server: s, servers: &pools{}}
			defer sess.close()
			if got := sess.tryLogin(t.Context(), "app", "word"); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}
