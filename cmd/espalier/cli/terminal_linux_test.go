package cli

import (
	"fmt"
	"io"
	"os"
	"testing"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// onTerminal runs the program on a terminal of the given width and returns its exit code and what it printed.
func onTerminal(t *testing.T, width int, args ...string) (code int, text string) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("this machine has no terminals: %v", err)
	}
	defer master.Close()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	must(err)
	screen, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	must(err)
	_, err = term.MakeRaw(int(screen.Fd())) // line ends stay as they are
	must(err)
	must(unix.IoctlSetWinsize(int(screen.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: uint16(width), Row: 24}))
	printed := make(chan string, 1)
	go func() { printed <- readAll(master) }()
	code = Main(t.Context(), args, screen, screen)
	must(screen.Close())
	return code, <-printed
}

// readAll reads what was written to the other end of a terminal or a pipe, until that is closed.
func readAll(from io.Reader) string {
	all, _ := io.ReadAll(from) // of a terminal it fails at the end
	return string(all)
}
