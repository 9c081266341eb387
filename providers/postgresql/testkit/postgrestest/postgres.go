// Package postgrestest runs PostgreSQL servers for tests, with the programs of Debian's package.
// A server listens on loopback and on a socket, and its data is in a temporary directory.
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

// Superuser and Password are the credentials of the superuser.
const (
	Superuser = "postgres"
	Password  = "of-the-tests' superuser"
)

// startTimeout limits the start of a server.
const startTimeout = 30 * time.Second

// Server is a server for tests.
type Server struct {
	// Dir has all its files. Port is its port on 127.0.0.1.
	Dir  string
	Port int
	// CA is the CA certificate, as PEM, for the server's certificate, which is for localhost.
	CA []byte

	bin  string
	as   *syscall.Credential
	proc *exec.Cmd
	done chan struct{}
}

// Start creates a database cluster and starts its server. It returns an error if the package is
// not installed.
func Start() (*Server, error) {
	bin, err := findBinaries()
	if err != nil {
		return nil, err
	}
	s := &Server{bin: bin}
	if s.as, err = serverUser(); err != nil {
		return nil, err
	}
	// A directory of testing.T would not be accessible to the server's user.
	if s.Dir, err = os.MkdirTemp("", "espalier-pg-"); err != nil {
		return nil, err
	}
	if err := s.initialize(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(s.Dir))
	}
	if err := s.Run(); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

// findBinaries returns the directory of the newest version's programs.
func findBinaries() (string, error) {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	found = slices.DeleteFunc(found, func(dir string) bool { _, err := os.Stat(filepath.Join(dir, "initdb")); return err != nil })
	if len(found) == 0 {
		return "", errors.New("no PostgreSQL server in /usr/lib/postgresql: install Debian's package postgresql (apt-get install --no-install-recommends postgresql)")
	}
	version := func(dir string) int { n, _ := strconv.Atoi(filepath.Base(filepath.Dir(dir))); return n }
	slices.SortFunc(found, func(a, b string) int { return version(b) - version(a) })
	return found[0], nil
}

// serverUser returns the user of the server, which refuses to run as root; nil for the current
// user.
func serverUser() (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, fmt.Errorf("the server cannot run as root: %w", err)
	}
	uid, _ := strconv.ParseUint(u.Uid, 10, 32)
	gid, _ := strconv.ParseUint(u.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}

// initialize creates the database cluster: with SCRAM, optional TLS, and a log of every
// statement.
func (s *Server) initialize() error {
	if err := s.chown(s.Dir); err != nil {
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
	if err := s.writeCertificate(); err != nil {
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

// Log returns the log of the server.
func (s *Server) Log() ([]byte, error) { return os.ReadFile(filepath.Join(s.Dir, "log")) }

// command returns a command of one of the server's programs, which runs as the server's user.
func (s *Server) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(s.bin, name), args...)
	cmd.Dir = s.Dir
	cmd.Env = []string{"PATH=" + s.bin + ":/usr/bin:/bin", "LC_ALL=C.UTF-8", "TZ=UTC", "DIR=" + s.Dir}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.as, Setpgid: true}
	return cmd
}

// chown makes the server's user the owner of a file.
func (s *Server) chown(path string) error {
	if s.as == nil {
		return nil
	}
	return os.Chown(path, int(s.as.Uid), int(s.as.Gid))
}

func (s *Server) write(path string, content []byte) error {
	if err := os.WriteFile(path, content, 0o600); err != nil {
		return err
	}
	return s.chown(path)
}

// watchdog runs a server as long as descriptor 3 is open, a pipe from the test's process. When
// that process ends, even by a crash, the pipe closes: the server is stopped, and its directory
// is removed.
const watchdog = `"$@" & server=$!
( read -r _; trap '' TERM; kill -QUIT $server; while kill -0 $server; do sleep 0.1; done; rm -rf "$DIR" ) <&3 2>/dev/null & dog=$!
wait $server
kill $dog`

// Run starts the server, and waits until it accepts connections. After Kill, it starts the server
// as after a crash of its machine.
func (s *Server) Run() error {
	log, err := os.OpenFile(filepath.Join(s.Dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	reader, writer, err := os.Pipe()
	if err != nil {
		return err
	}
	defer reader.Close()
	cmd := s.command("postgres")
	cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-c", watchdog, "sh", filepath.Join(s.bin, "postgres"), "-D", s.data()}
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = log, log, []*os.File{reader}
	if err := cmd.Start(); err != nil {
		writer.Close()
		return fmt.Errorf("start postgres: %w", err)
	}
	done := make(chan struct{})
	s.proc, s.done = cmd, done
	go func() {
		defer close(done)
		_ = cmd.Wait() // the log has the reason
		writer.Close()
	}()
	return s.awaitReady()
}

// awaitReady waits until the server accepts connections.
func (s *Server) awaitReady() error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
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
			log, _ := s.Log()
			return fmt.Errorf("postgres has ended: %s", log[max(0, len(log)-2000):])
		case <-ctx.Done():
			return fmt.Errorf("postgres does not accept connections: %w", err)
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

// pid returns the process ID of the server.
func (s *Server) pid() (int, error) {
	raw, err := os.ReadFile(filepath.Join(s.data(), "postmaster.pid"))
	if err != nil {
		return 0, err
	}
	first, _, _ := strings.Cut(string(raw), "\n")
	return strconv.Atoi(first)
}

// Kill kills the server and its session processes at once, as a power failure would. Sessions
// would otherwise complete their statements.
func (s *Server) Kill() error {
	pid, err := s.pid()
	if err != nil {
		return err
	}
	_ = syscall.Kill(pid, syscall.SIGSTOP) // so that it starts no more children
	for _, child := range children(pid) {
		_ = syscall.Kill(child, syscall.SIGKILL)
	}
	err = syscall.Kill(pid, syscall.SIGKILL)
	<-s.done // wait until the shell has reaped it
	return err
}

// children returns the child processes of a process.
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

// Stop stops the server, and removes its directory.
func (s *Server) Stop() error {
	if s.proc != nil {
		if pid, err := s.pid(); err == nil {
			_ = syscall.Kill(pid, syscall.SIGINT) // it may have ended
		}
		select {
		case <-s.done:
		case <-time.After(10 * time.Second):
		}
		_ = syscall.Kill(-s.proc.Process.Pid, syscall.SIGKILL) // the watchdog and remaining processes
		<-s.done
	}
	return os.RemoveAll(s.Dir)
}
