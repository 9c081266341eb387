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
)

// answering is a server that answers the first packet of each guest with some bytes,
// and then nothing. Said is what a guest has said to that when he goes.
func answering(t *testing.T, answer []byte) (s server, said <-chan string) {
	t.Helper()
	heard := make(chan string, 10)
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
				heard <- string(rest)
			}()
		}
	}()
	return server{Host: "127.0.0.1", Port: uint16(l.Addr().(*net.TCPAddr).Port), User: "u", Password: "my word", Database: "d", TLS: "disable", Connections: 4, Timeout: time.Minute}, heard
}

// message is one of the server's.
func message(kind byte, body string) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{kind}, uint32(len(body)+4)), body...)
}

// TestAServerThatSaysTooMuchIsToldBriefly is about a server that is somebody's own.
func TestAServerThatSaysTooMuchIsToldBriefly(t *testing.T) {
	s, _ := answering(t, message('E', "SFATAL\x00VFATAL\x00C28000\x00M"+strings.Repeat("no! ", 1<<20)+"\x00\x00"))
	v := &visit{server: s, servers: &pools{}}
	defer v.close()
	err := v.on(t.Context(), "", func(context.Context, *pgx.Conn) error { return nil })
	if err == nil || len(unsent(err).Message) > 2*mostTold || len(briefError{err}.Error()) > 2*mostTold {
		t.Error("it is told at length")
	}
}

// TestAPasswordIsNotSaidInTheClear lets a server, or who is in its place, ask for it.
func TestAPasswordIsNotSaidInTheClear(t *testing.T) {
	s, said := answering(t, message('R', "\x00\x00\x00\x03"))
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err := s.dial(ctx, "d")
	if heard := <-said; strings.Contains(heard, s.Password) {
		t.Error("it was said")
	}
	if err == nil || strings.Contains(err.Error(), s.Password) {
		t.Errorf("it is said: %v", err)
	}
}

// TestAServerDoesNotFillTheMemory lets it announce a message of half a gigabyte.
func TestAServerDoesNotFillTheMemory(t *testing.T) {
	s, _ := answering(t, append([]byte{'E'}, 0x20, 0, 0, 0))
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if _, err := s.dial(ctx, "d"); err == nil || ctx.Err() != nil || !strings.Contains(err.Error(), "expected at most") {
		t.Errorf("it is said: %v", err)
	}
}

// TestANamespacesServersThatHangDoNotHaveAllWorkers lets everything hang that a
// namespace asks of its servers, as many as it likes to have.
func TestANamespacesServersThatHangDoNotHaveAllWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := &pools{}
		hang := make(chan struct{})
		var ends []chan error
		for range 3 * mostOfANamespace {
			end := make(chan error, 1)
			ends = append(ends, end)
			go func() {
				end <- all.turn(t.Context(), server{Namespace: "team"}, func() error { <-hang; return nil })
			}()
		}
		<-time.After(2 * longestQueue)
		synctest.Wait()
		refused := 0
		for _, end := range ends {
			select {
			case err := <-end:
				if refused++; err == nil || !strings.Contains(err.Error(), "namespace team") {
					t.Errorf("it is said: %v", err)
				}
			default:
			}
		}
		if refused != 2*mostOfANamespace {
			t.Errorf("%d gave up", refused)
		}
		for _, other := range []server{{Namespace: "another"}, {}} {
			if err := all.turn(t.Context(), other, func() error { return errors.ErrUnsupported }); !errors.Is(err, errors.ErrUnsupported) {
				t.Errorf("others don't get a turn: %v", err)
			}
		}
		close(hang)
		synctest.Wait()
		if err := all.turn(t.Context(), server{Namespace: "team"}, func() error { return nil }); err != nil {
			t.Errorf("they don't get a turn any more: %v", err)
		}
	})
}
