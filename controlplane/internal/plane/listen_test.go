package plane

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

func TestListenKeepsItsPort(t *testing.T) {
	file := filepath.Join(t.TempDir(), "port")
	first := mustListen(t, file, 0)
	if err := os.WriteFile(file, []byte(strconv.Itoa(first)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if again := mustListen(t, file, 0); again != first {
		t.Errorf("served on %d, then on %d", first, again)
	}
}

func TestListenYieldsARememberedPort(t *testing.T) {
	file := filepath.Join(t.TempDir(), "port")
	taken, err := listen(file, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	if got := mustListen(t, file, 0); got == portOf(taken.Addr()) {
		t.Errorf("port %d is served twice", got)
	}
}

func TestListenFailsWhereThePortAskedForIsTaken(t *testing.T) {
	file := filepath.Join(t.TempDir(), "port")
	taken, err := listen(file, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	if other, err := listen(file, portOf(taken.Addr())); err == nil {
		other.Close()
		t.Error("no error")
	}
}

func TestListenIgnoresAFileThatMakesNoSense(t *testing.T) {
	for _, content := range []string{"", "eighty", "-3", "99999999"} {
		file := filepath.Join(t.TempDir(), "port")
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		mustListen(t, file, 0)
	}
}

// mustListen returns the port that listen chose, free again.
func mustListen(t *testing.T, file string, port int) int {
	t.Helper()
	listener, err := listen(file, port)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return portOf(listener.Addr())
}
