// Package launch decides how the entrypoint of an image is run on this machine.
//
// Pure: values in, values out.
package launch

import (
	"fmt"
	"path"
	"strconv"
	"strings"
)

// Method is how a program is kept apart from the rest of the machine.
type Method string

// The methods.
const (
	// Chroot: in its own root, as a user without privileges. This program must be root.
	Chroot Method = "Chroot"
	// Namespaces: in its own root, which is read-only, with its own processes, in a user namespace.
	Namespaces Method = "Namespaces"
	// Direct: like any other program of this user.
	Direct Method = "Direct"
)

// String ends the sentence "it runs …".
func (m Method) String() string {
	return map[Method]string{
		Chroot: "in its own root (chroot)", Namespaces: "in its own root (user namespace)", Direct: "as a program of this user",
	}[m]
}

// Image is what is known of an unpacked image.
type Image struct {
	OS, Architecture string
	// Command is the entrypoint with its arguments, Environment the variables as NAME=VALUE.
	Command, Environment []string
	// Directory is the working directory, and User what the image gives: a name or a number, with or without a group.
	Directory, User string
	// Program is the path of the entrypoint's file in the image, without symbolic links. Problem is why there is none.
	Program, Problem string
	// Static says that the program is for Architecture and needs no interpreter and no libraries.
	Static bool
	// Beside is a file that a static program may need; empty if there is none.
	Beside string
}

// Machine is what this machine allows.
type Machine struct {
	OS, Architecture string
	// Root: this program runs as root, so a program that is not confined would too.
	Root bool
	// NoChroot and NoNamespaces are why a program cannot be run that way; empty if it can.
	NoChroot, NoNamespaces string
}

// Launch is how an image is run.
type Launch struct {
	Method Method
	// Program is the path in the image, Arguments include argument 0.
	Program   string
	Arguments []string
	// Environment are the image's variables, with a PATH.
	Environment []string
	// Directory is the working directory in the image, and UID the user.
	Directory string
	UID       int
}

// defaultUID is the user of images that name none, or root: nobody else on a machine has this number.
const defaultUID = 65532

// DefaultPath is the PATH of images that set none.
const DefaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// CheckPlatform returns an error if no program of the platform runs on this machine.
func (m Machine) CheckPlatform(os, architecture string) error {
	if os == m.OS && architecture == m.Architecture {
		return nil
	}
	return fmt.Errorf("its image is for %s/%s, and this machine is %s/%s", os, architecture, m.OS, m.Architecture)
}

// Decide returns how an image is run: in a root of its own wherever this machine allows it. A static program that needs
// no other file of its image runs without one as well.
func Decide(i Image, m Machine) (Launch, error) {
	if err := m.CheckPlatform(i.OS, i.Architecture); err != nil {
		return Launch{}, err
	}
	if i.Problem != "" {
		return Launch{}, fmt.Errorf("its entrypoint cannot be run: %s", i.Problem)
	}
	l := Launch{Program: i.Program, Arguments: i.Command, Environment: i.Environment, Directory: path.Join("/", i.Directory), UID: uid(i.User)}
	if !sets(i.Environment, "PATH") {
		l.Environment = append([]string{"PATH=" + DefaultPath}, i.Environment...)
	}
	switch {
	case m.Root && m.NoChroot == "":
		l.Method = Chroot
	case m.NoNamespaces == "":
		l.Method = Namespaces
	case !m.Root && i.Static && i.Beside == "":
		l.Method = Direct
	default:
		return Launch{}, fmt.Errorf("this machine cannot run it in a root of its own: %s", refusal(i, m))
	}
	return l, nil
}

func refusal(i Image, m Machine) string {
	why := "user namespaces: " + m.NoNamespaces
	if m.Root {
		return "chroot: " + m.NoChroot + "; " + why + ". Without one, it would run as root"
	}
	switch {
	case !i.Static:
		why += ". Without one, only a static program runs, and " + i.Program + " is not static"
	case i.Beside != "":
		why += ". Without one, only a program that needs no other file runs, and the image has " + i.Beside
	}
	return why + ". Allow user namespaces to this user, or run this command as root"
}

// Sets reports whether a list of variables has a name.
func sets(environment []string, name string) bool {
	for _, variable := range environment {
		if strings.HasPrefix(variable, name+"=") {
			return true
		}
	}
	return false
}

// uid is the number of an image's user, unless it is root or a name: the names are in a file of the image.
func uid(user string) int {
	user, _, _ = strings.Cut(user, ":")
	if n, err := strconv.ParseInt(user, 10, 32); err == nil && n > 0 {
		return int(n)
	}
	return defaultUID
}
