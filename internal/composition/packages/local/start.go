package local

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"github.com/espalier-dev/espalier/internal/composition/packages/local/launch"
)

// program is what a package is started with. It has a directory of its own, with its certificate and for its
// temporary files, which is removed when it is closed.
type program struct {
	launch.Launch
	root string
	// own is the directory, and inside is its path for the program.
	own, inside string
	release     func()
}

const certificatesDirectory = "tls"

// newProgram makes the program's directory, which only its user can read.
func newProgram(l launch.Launch, u *unpacked) (p *program, err error) {
	p = &program{Launch: l, root: u.root, release: u.release, inside: "/" + ownDirectory}
	parent := ""
	if l.Method == launch.Chroot { // nothing from outside its root is visible to it
		parent = filepath.Join(u.root, ownDirectory)
	}
	if p.own, err = os.MkdirTemp(parent, "espalier-function-"); err != nil {
		return nil, err
	}
	switch l.Method {
	case launch.Chroot:
		p.inside += "/" + filepath.Base(p.own)
	case launch.Direct:
		p.inside = p.own
	case launch.Namespaces:
	}
	for _, name := range []string{tmpDirectory, certificatesDirectory} {
		if err := os.Mkdir(filepath.Join(p.own, name), 0o700); err != nil {
			return nil, errors.Join(err, os.RemoveAll(p.own))
		}
	}
	return p, nil
}

// hand makes the files of the directory the program's.
func (p *program) hand() error {
	if p.Method != launch.Chroot {
		return nil
	}
	return filepath.WalkDir(p.own, func(name string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(name, p.UID, p.UID)
	})
}

func (p *program) close() {
	_ = os.RemoveAll(p.own) // what is left is removed with the image
	p.release()
}

// environment is what the program gets: its image's variables, the given ones, and where its files are.
func (p *program) environment(given []string) []string {
	tmp := p.inside + "/" + tmpDirectory
	out := append([]string{"HOME=" + tmp}, p.Environment...)
	out = append(out, given...)
	return append(out, "TMPDIR="+tmp, "TLS_SERVER_CERTS_DIR="+p.inside+"/"+certificatesDirectory)
}

// command returns the command that serves at an address.
func (p *program) command(address string, environment []string) *exec.Cmd {
	arguments := append(append([]string{}, p.Arguments...), "--address="+address)
	c := &exec.Cmd{Args: arguments, Env: p.environment(environment)}
	if p.Method == launch.Direct {
		c.Path, c.Dir = filepath.Join(p.root, p.Program), filepath.Join(p.own, tmpDirectory)
		return c
	}
	p.confine(c)
	return c
}

// ThisMachine returns what this machine allows. It tries to use a namespace.
func ThisMachine() launch.Machine {
	m := launch.Machine{OS: runtime.GOOS, Architecture: runtime.GOARCH, Root: os.Geteuid() == 0}
	m.NoChroot, m.NoNamespaces = probe()
	return m
}
