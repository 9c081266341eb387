package local

import (
	"debug/elf"
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/espalier-dev/espalier/internal/composition/packages/local/launch"
)

var machines = map[string]elf.Machine{
	"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64, "arm": elf.EM_ARM, "ppc64le": elf.EM_PPC64, "s390x": elf.EM_S390, "riscv64": elf.EM_RISCV,
}

// inspect reads what decides how an image is run.
func inspect(u *unpacked) (launch.Image, error) {
	c := u.Config.Config
	i := launch.Image{
		OS: u.Config.OS, Architecture: u.Config.Architecture, Environment: c.Env, Directory: c.WorkingDir, User: c.User,
		Command: append(append([]string{}, c.Entrypoint...), c.Cmd...),
	}
	if len(i.Command) == 0 {
		i.Problem = "the image has none"
		return i, nil
	}
	root, err := os.OpenRoot(u.root)
	if err != nil {
		return i, err
	}
	defer root.Close()
	program, problem := findProgram(root, i)
	if i.Problem = problem; problem != "" {
		return i, nil
	}
	i.Program = "/" + program
	if i.Static = isStatic(root, program, i.Architecture); i.Static {
		i.Beside, err = findBeside(root, program)
	}
	return i, err
}

// findProgram returns the file of the entrypoint, which is searched in the image's PATH if it has no directory.
func findProgram(root *os.Root, i launch.Image) (program, problem string) {
	name := i.Command[0]
	candidates := []string{path.Join("/", i.Directory, name)}
	if path.IsAbs(name) {
		candidates[0] = name
	} else if !strings.Contains(name, "/") {
		search := launch.DefaultPath
		for _, variable := range i.Environment {
			if value, ok := strings.CutPrefix(variable, "PATH="); ok {
				search = value
			}
		}
		candidates = nil
		for dir := range strings.SplitSeq(search, ":") {
			candidates = append(candidates, path.Join("/", dir, name))
		}
	}
	for _, candidate := range candidates {
		found, err := resolve(root, candidate)
		if err != nil {
			continue
		}
		if info, err := root.Lstat(found); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return found, ""
		}
	}
	return "", "the image has no program " + shortened(name)
}

func isStatic(root *os.Root, program, architecture string) bool {
	f, err := root.Open(program)
	if err != nil {
		return false
	}
	defer f.Close()
	file, err := elf.NewFile(f)
	if err != nil || file.Machine != machines[architecture] {
		return false
	}
	for _, p := range file.Progs {
		if p.Type == elf.PT_INTERP {
			return false
		}
	}
	libraries, err := file.ImportedLibraries()
	return err == nil && len(libraries) == 0
}

// findBeside returns the first file that a static program may need.
func findBeside(root *os.Root, program string) (string, error) {
	var found string
	err := fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.Type().IsRegular() && name != program && !launch.IsUnneeded(name) {
			found = "/" + name
			return errFound
		}
		return nil
	})
	if errors.Is(err, errFound) {
		err = nil
	}
	return found, err
}

var errFound = errors.New("found")
