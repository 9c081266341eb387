package plane

import (
	"os"

	"golang.org/x/sys/unix"
)

// maxLog is the size in bytes from which a start truncates the log file.
const maxLog = 32 << 20

// logTo redirects the standard error of the process to file until restore is called. So the logs
// of all libraries and the stack of a panic go to the file, and only our own error goes to the
// terminal.
func logTo(file string) (restore func(), err error) {
	mode := os.O_CREATE | os.O_WRONLY | os.O_APPEND
	if info, err := os.Stat(file); err == nil && info.Size() > maxLog {
		mode |= os.O_TRUNC
	}
	out, err := os.OpenFile(file, mode, 0o600)
	if err != nil {
		return nil, err
	}
	defer out.Close() // standard error is another descriptor of it
	stderr := int(os.Stderr.Fd())
	before, err := unix.FcntlInt(uintptr(stderr), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("dup", err)
	}
	if err := unix.Dup2(int(out.Fd()), stderr); err != nil {
		return nil, os.NewSyscallError("dup2", err)
	}
	return func() { _ = unix.Dup2(before, stderr) }, nil // both are open, so it cannot fail
}
