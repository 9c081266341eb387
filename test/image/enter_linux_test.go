package image

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

const (
	// rootVariable makes a program that enters a root directory of the test's own program.
	rootVariable = "ESPALIER_TEST_ROOT"
	// userVariable is the user as which it is run.
	userVariable = "ESPALIER_TEST_USER"
	// exitForbidden is the exit code if this machine does not allow to change the root.
	exitForbidden = 99
)

// user is the user and group of the image.
const user = "65532"

// inRoot returns a command that runs a program of another root directory, with its own view of the file
// systems. Root runs it as the user of the image. Any other user runs it in a user namespace, in which
// only this user exists.
func inRoot(root string, environment []string, arguments ...string) *exec.Cmd {
	command := exec.Command(os.Args[0], arguments...)
	command.Env = append([]string{rootVariable + "=" + root}, environment...)
	command.Stdin = strings.NewReader("") // the root has no /dev/null
	command.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if os.Getuid() == 0 {
		command.Env = append(command.Env, userVariable+"="+user)
	} else {
		command.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		command.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		command.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	return command
}

// enter replaces this program with one of another root, which it mounts read-only.
func enter() {
	runtime.LockOSThread()
	root, readOnly := os.Getenv(rootVariable), uintptr(syscall.MS_REMOUNT|syscall.MS_BIND|syscall.MS_RDONLY|syscall.MS_NODEV|syscall.MS_NOSUID)
	for _, step := range []struct {
		what string
		do   func() error
	}{
		{"make mounts private", func() error { return syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, "") }},
		{"mount the root", func() error { return syscall.Mount(root, root, "", syscall.MS_BIND, "") }},
		{"mount the root read-only", func() error { return syscall.Mount("", root, "", readOnly, "") }},
		{"change the root", func() error { return syscall.Chroot(root) }},
		{"change the directory", func() error { return syscall.Chdir("/") }},
		{"change the user", changeUser},
	} {
		if err := step.do(); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", step.what, err)
			os.Exit(exitForbidden)
		}
	}
	environment := slices.DeleteFunc(os.Environ(), func(variable string) bool { return strings.HasPrefix(variable, "ESPALIER_TEST_") })
	err := syscall.Exec(os.Args[1], os.Args[1:], environment)
	fmt.Fprintf(os.Stderr, "execute %s: %v\n", os.Args[1], err)
	os.Exit(1)
}

func changeUser() error {
	id, err := strconv.Atoi(os.Getenv(userVariable))
	if err != nil {
		return nil // only this user exists
	}
	if err := syscall.Setgroups(nil); err != nil {
		return err
	}
	if err := syscall.Setgid(id); err != nil {
		return err
	}
	return syscall.Setuid(id)
}
