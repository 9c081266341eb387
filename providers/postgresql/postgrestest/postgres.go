// Package postgrestest runs a PostgreSQL server of a test's own: from Debian's package,
// on loopback and a socket in a directory of its own, and gone with the test.
package postgrestest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// Superuser is the role that may do everything, and Password what it logs in with.
const (
	Superuser = "postgres"
	Password  = "of-the-tests' superuser"
)

// startLimit is how long a server may take until it answers.
const startLimit = 30 * time.Second

// Server is a server of its own.
type Server struct {
	// Dir holds all of it; Port is that on 127.0.0.1.
	Dir  string
	Port int
	// CA is the certificate, as PEM, of who has signed the server's, which is for
	// localhost.
	CA []byte

	bin  string
	as   *syscall.Credential
	proc *exec.Cmd
	done chan struct{}
}

// Start makes a cluster and starts its server. Where the package isn't installed it
// says so: a test that needs a server doesn't pass without.
func Start() (*Server, error) {
	bin, err := binaries()
	if err != nil {
		return nil, err
	}
	s := &Server{bin: bin}
	if s.as, err = another(); err != nil {
		return nil, err
	}
	// Not below a directory of a test's, which nobody else may enter.
	if s.Dir, err = os.MkdirTemp("", "espalier-pg-"); err != nil {
		return nil, err
	}
	if err := s.make(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(s.Dir))
	}
	if err := s.Run(); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

// binaries is where the newest version's programs are.
func binaries() (string, error) {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	found = slices.DeleteFunc(found, func(dir string) bool { _, err := os.Stat(filepath.Join(dir, "initdb")); return err != nil })
	if len(found) == 0 {
		return "", errors.New("there is no PostgreSQL server below /usr/lib/postgresql: install Debian's package postgresql (apt-get install --no-install-recommends postgresql)")
	}
	version := func(dir string) int { n, _ := strconv.Atoi(filepath.Base(filepath.Dir(dir))); return n }
	slices.SortFunc(found, func(a, b string) int { return version(b) - version(a) })
	return found[0], nil
}

// another is as whom the server runs: it refuses to run as root.
func another() (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, fmt.Errorf("as whom should the server run? %w", err)
	}
	uid, _ := strconv.ParseUint(u.Uid, 10, 32)
	gid, _ := strconv.ParseUint(u.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}

// make lays the cluster out: with SCRAM for everybody, TLS for who asks for it, and
// every statement in the log.
func (s *Server) make() error {
	if err := s.own(s.Dir); err != nil {
		return err
	}
	secret := filepath.Join(s.Dir, "password")
	if err := s.write(secret, []byte(Password)); err != nil {
		return err
	}
	init := s.command("initdb", "--pgdata", s.data(), "--username", Superuser, "--pwfile", secret, "--auth", "scram-sha-256",
		"--encoding", "UTF8", "--locale", "C.UTF-8", "--no-sync")
	if out, err := init.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	listen, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s.Port = listen.Addr().(*net.TCPAddr).Port
	listen.Close()
	if err := s.certify(); err != nil {
		return err
	}
	config := fmt.Sprintf(`
listen_addresses = '127.0.0.1'
port = %d
unix_socket_directories = '%s'
log_statement = 'all'
log_min_duration_statement = 0
log_connections = on
fsync = off
max_connections = 300
password_encryption = 'scram-sha-256'
ssl = on
ssl_cert_file = '%[2]s/server.crt'
ssl_key_file = '%[2]s/server.key'
`, s.Port, s.Dir)
	return s.write(filepath.Join(s.data(), "postgresql.auto.conf"), []byte(config))
}

func (s *Server) data() string { return filepath.Join(s.Dir, "data") }

// Log is what the server has logged so far.
func (s *Server) Log() ([]byte, error) { return os.ReadFile(filepath.Join(s.Dir, "log")) }

// command is one of the server's programs, as whom it runs. It ends with this
// process, however that ends.
func (s *Server) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(s.bin, name), args...)
	cmd.Dir = s.Dir
	cmd.Env = []string{"PATH=" + s.bin + ":/usr/bin:/bin", "LC_ALL=C.UTF-8", "TZ=UTC", "DIR=" + s.Dir}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.as, Setpgid: true}
	return cmd
}

// own gives a file to the server's user.
func (s *Server) own(path string) error {
	if s.as == nil {
		return nil
	}
	return os.Chown(path, int(s.as.Uid), int(s.as.Gid))
}

func (s *Server) write(path string, content []byte) error {
	if err := os.WriteFile(path, content, 0o600); err != nil {
		return err
	}
	return s.own(path)
}

// watchdog runs a server for as long as its standard input stays open, which is that
// of the test: when that has died, however it did, the pipe closes, and the server is
// told to stop at once, and what there was of it is removed.
const watchdog = `"$@" & server=$!
( read -r _; trap '' TERM; kill -QUIT $server; while kill -0 $server; do sleep 0.1; done; rm -rf "$DIR" ) <&3 2>/dev/null & dog=$!
wait $server
kill $dog`

// Run starts the server, and waits until it answers. It is for one that was killed,
// too, which is then as after a crash of its machine.
func (s *Server) Run() error {
	log, err := os.OpenFile(filepath.Join(s.Dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	alive, ours, err := os.Pipe()
	if err != nil {
		return err
	}
	defer alive.Close()
	cmd := s.command("postgres")
	cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-c", watchdog, "sh", filepath.Join(s.bin, "postgres"), "-D", s.data()}
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = log, log, []*os.File{alive}
	if err := cmd.Start(); err != nil {
		ours.Close()
		return fmt.Errorf("start postgres: %w", err)
	}
	done := make(chan struct{})
	s.proc, s.done = cmd, done
	go func() {
		defer close(done)
		_ = cmd.Wait() // how it ended is in its log
		ours.Close()
	}()
	return s.await()
}

// await waits until the server answers.
func (s *Server) await() error {
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		conn, err := s.Connect(ctx, Superuser, Password, "postgres")
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-tick.C:
		case <-s.done:
			said, _ := s.Log()
			return fmt.Errorf("postgres has ended: %s", said[max(0, len(said)-2000):])
		case <-ctx.Done():
			return fmt.Errorf("postgres doesn't answer: %w", err)
		}
	}
}

// Connect connects over loopback, without TLS.
func (s *Server) Connect(ctx context.Context, user, password, database string) (*pgx.Conn, error) {
	c, err := pgx.ParseConfig("host=127.0.0.1 sslmode=disable user=nobody")
	if err != nil {
		return nil, err
	}
	c.Port, c.User, c.Password, c.Database = uint16(s.Port), user, password, database
	return pgx.ConnectConfig(ctx, c)
}

// pid is the server's process.
func (s *Server) pid() (int, error) {
	raw, err := os.ReadFile(filepath.Join(s.data(), "postmaster.pid"))
	if err != nil {
		return 0, err
	}
	first, _, _ := strings.Cut(string(raw), "\n")
	return strconv.Atoi(first)
}

// Kill kills the server and all its processes at once, as a failure of power would:
// those of its sessions would go on with what they are doing otherwise.
func (s *Server) Kill() error {
	pid, err := s.pid()
	if err != nil {
		return err
	}
	_ = syscall.Kill(pid, syscall.SIGSTOP) // so that it has no more children than are found
	for _, child := range children(pid) {
		_ = syscall.Kill(child, syscall.SIGKILL)
	}
	err = syscall.Kill(pid, syscall.SIGKILL)
	<-s.done // the shell above it has heard of it, so that no trace of it is left
	return err
}

// children are the processes that a process has started.
func children(of int) []int {
	var out []int
	all, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range all {
		raw, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		_, rest, _ := strings.Cut(string(raw), ") ")
		var state string
		var parent int
		if _, err := fmt.Sscan(rest, &state, &parent); err == nil && parent == of {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			out = append(out, pid)
		}
	}
	return out
}

// Stop ends the server, and removes all that there was of it.
func (s *Server) Stop() error {
	if s.proc != nil {
		if pid, err := s.pid(); err == nil {
			_ = syscall.Kill(pid, syscall.SIGINT) // it may be gone
		}
		select {
		case <-s.done:
		case <-time.After(10 * time.Second):
		}
		_ = syscall.Kill(-s.proc.Process.Pid, syscall.SIGKILL) // the watchdog, and whoever is left
		<-s.done
	}
	return os.RemoveAll(s.Dir)
}
