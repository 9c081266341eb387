package local

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/espalier-dev/espalier/internal/composition/packages/local/launch"
)

// confine makes the command run in the program's root.
func (p *program) confine(c *exec.Cmd) {
	if p.Method == launch.Chroot {
		c.Path, c.Dir = p.Program, p.Directory
		c.SysProcAttr = &syscall.SysProcAttr{Chroot: p.root, Credential: &syscall.Credential{Uid: uint32(p.UID), Gid: uint32(p.UID)}}
		makeDevices(p.root)
		for _, name := range mountFiles { // as in a container, so that it can resolve names
			if content, err := os.ReadFile("/" + name); err == nil {
				copyInto(p.root, name, content)
			}
		}
		return
	}
	enter(c, confinement{Root: p.root, Own: p.own, Directory: p.Directory, Program: p.Program, Arguments: c.Args}, p.UID)
}

// devices are what programs take for granted. All of them are harmless, and in every container.
var devices = map[string]int{"null": 3, "zero": 5, "full": 7, "random": 8, "urandom": 9}

// makeDevices adds the devices to a root. Without the privilege to make them, the program's output says what it lacks.
func makeDevices(dir string) {
	for name, minor := range devices {
		path := filepath.Join(dir, "dev", name)
		if unix.Mknod(path, unix.S_IFCHR|0o666, int(unix.Mkdev(1, uint32(minor)))) == nil {
			_ = os.Chmod(path, 0o666) // the umask has cleared bits
		}
	}
}

// copyInto writes a file of a root without leaving it. If it cannot, the program resolves no names.
func copyInto(dir, name string, content []byte) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return
	}
	defer root.Close()
	if found, err := resolve(root, name); err == nil {
		_ = root.WriteFile(found, content, 0o644)
	}
}

// confinement is what a process in new namespaces needs to run a program. An empty one only tries them.
type confinement struct {
	Root, Own, Directory, Program string
	Arguments                     []string
}

// namespacesName is argument 0 of a process of this program in new namespaces.
const namespacesName = "espalier-function-namespaces"

// enter makes the command start this program in new namespaces, where EnterNamespaces prepares the root and becomes the
// command's program. Mounting takes a privilege that the process has in its namespaces only, and gives up.
func enter(c *exec.Cmd, r confinement, uid int) {
	told, err := json.Marshal(r)
	if err != nil {
		panic(err) // it consists of strings
	}
	c.Path, c.Args, c.Dir = "/proc/self/exe", []string{namespacesName, string(told)}, "/"
	c.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: uid, HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: uid, HostID: os.Getegid(), Size: 1}},
		AmbientCaps: []uintptr{unix.CAP_SYS_ADMIN},
	}
}

var canEnter bool

// EnterNamespaces must be called first in main: a program that runs packages starts itself again for each, to prepare the root
// of that package. It returns in all other processes.
func EnterNamespaces() {
	canEnter = true
	if os.Args[0] != namespacesName {
		return
	}
	runtime.LockOSThread() // this thread gives up its privileges
	var r confinement
	err := json.Unmarshal([]byte(strings.Join(os.Args[1:], "")), &r)
	if err == nil {
		err = r.become()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "cannot prepare the root of its image:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// become replaces this process by the program in its root, which it can only read.
func (r confinement) become() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil || r.Root == "" {
		return described("make mounts private", err)
	}
	if err := r.mount(); err != nil {
		return err
	}
	if err := unix.Chdir(r.Root); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return described("change the root", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return described("unmount the former root", err)
	}
	if err := unix.Chdir(r.Directory); err != nil {
		return described("its working directory "+r.Directory, err)
	}
	for _, call := range [][2]int{{unix.PR_SET_NO_NEW_PRIVS, 1}, {unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL}} {
		if err := unix.Prctl(call[0], uintptr(call[1]), 0, 0, 0); err != nil {
			return described("give up privileges", err)
		}
	}
	return described("run "+r.Program, unix.Exec(r.Program, r.Arguments, os.Environ()))
}

func (r confinement) mount() error {
	if err := unix.Mount(r.Root, r.Root, "", unix.MS_BIND, ""); err != nil {
		return described("bind the root", err)
	}
	// Other than a remount, this keeps the restrictions of the file system that the root is in.
	readOnly := &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV}
	if err := unix.MountSetattr(unix.AT_FDCWD, r.Root, 0, readOnly); err != nil {
		return described("make the root read-only", err)
	}
	in := func(name string) string { return filepath.Join(r.Root, name) }
	binds := [][2]string{{r.Own, in(ownDirectory)}, {filepath.Join(r.Own, tmpDirectory), in(tmpDirectory)}}
	if err := unix.Mount("tmpfs", in("dev"), "tmpfs", unix.MS_NOSUID|unix.MS_NOEXEC, "mode=0755,size=1m"); err != nil {
		return described("mount /dev", err)
	}
	for device := range devices {
		if err := os.WriteFile(in("dev/"+device), nil, 0o600); err != nil {
			return err
		}
		binds = append(binds, [2]string{"/dev/" + device, in("dev/" + device)})
	}
	for _, b := range binds {
		if err := unix.Mount(b[0], b[1], "", unix.MS_BIND, ""); err != nil {
			return described("bind "+b[0], err)
		}
	}
	for _, name := range mountFiles { // without them, it resolves no names
		r.bindFile(name)
	}
	// Containers may not mount one. Few programs need it.
	_ = unix.Mount("proc", in("proc"), "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
	return nil
}

// bindFile shows a file of the machine in the root.
func (r confinement) bindFile(name string) {
	root, err := os.OpenRoot(r.Root)
	if err != nil {
		return
	}
	defer root.Close()
	if found, err := resolve(root, name); err == nil {
		_ = unix.Mount("/"+name, filepath.Join(r.Root, found), "", unix.MS_BIND, "")
	}
}

func described(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

// probe finds out once what this machine allows.
var probe = sync.OnceValues(func() (noChroot, noNamespaces string) {
	return probeChroot(), probeNamespaces()
})

func probeChroot() string {
	if os.Geteuid() != 0 {
		return "only root can use it"
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var has [2]unix.CapUserData
	if err := unix.Capget(&header, &has[0]); err != nil {
		return err.Error()
	}
	for capability, name := range map[int]string{
		unix.CAP_SYS_CHROOT: "CAP_SYS_CHROOT", unix.CAP_SETUID: "CAP_SETUID", unix.CAP_SETGID: "CAP_SETGID", unix.CAP_CHOWN: "CAP_CHOWN",
	} {
		if has[0].Effective&(1<<capability) == 0 {
			return "root lacks " + name + " here"
		}
	}
	return ""
}

func probeNamespaces() string {
	if !canEnter {
		return "this program does not use them"
	}
	c := &exec.Cmd{}
	enter(c, confinement{}, 1)
	c.Env = []string{}
	if out, err := c.CombinedOutput(); err != nil {
		return strings.TrimSpace(err.Error() + " " + string(out))
	}
	return ""
}
