package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/spf13/cobra"

	"github.com/espalier-dev/espalier/internal/composition/packages/xpkg"
)

// buildFlags are the flags of xpkg build.
type buildFlags struct {
	root, output, examples string
	ignore                 []string
	tarball, binary        string
}

func newXpkgBuild() *cobra.Command {
	var flags buildFlags
	cmd := &cobra.Command{
		Use:   "build",
		Short: "Build a package from a folder of manifests",
		Long: "Builds a file with a package from all .yaml and .yml files below a folder. One of them,\n" +
			"usually crossplane.yaml, has its metadata. Hidden folders are left out.\n\n" +
			"A Provider and a Function contain the image that they run: of a tarball, as docker save\n" +
			"writes it, or one with nothing but a statically linked program for Linux.\n\n" +
			"All problems are printed, and nothing is written if there are any. The same files give\n" +
			"the same package. The printed digest is the one that a registry has for it.",
		Example: "  espalier xpkg build -f platform-package/ -o platform.xpkg\n" +
			"  espalier xpkg build -f function/ --embed-runtime-binary ./function -o function.xpkg",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return buildPackage(cmd.OutOrStdout(), flags) },
	}
	cmd.Flags().StringVarP(&flags.root, "package-root", "f", ".", "folder with the manifests of the package")
	cmd.Flags().StringVarP(&flags.output, "package-file", "o", "", "file to write; in the folder, named for its digest, by default")
	cmd.Flags().StringVarP(&flags.examples, "examples-root", "e", "", "folder with examples; examples in the folder by default")
	cmd.Flags().StringSliceVar(&flags.ignore, "ignore", nil, "pattern of files or folders to leave out; repeatable")
	cmd.Flags().StringVar(&flags.tarball, "embed-runtime-image-tarball", "", "file with the image to run")
	cmd.Flags().StringVar(&flags.binary, "embed-runtime-binary", "", "static program for Linux to make the image of")
	cmd.MarkFlagsMutuallyExclusive("embed-runtime-image-tarball", "embed-runtime-binary")
	_ = cmd.MarkFlagDirname("package-root")
	_ = cmd.MarkFlagDirname("examples-root")
	_ = cmd.MarkFlagFilename("package-file", "xpkg")
	_ = cmd.MarkFlagFilename("embed-runtime-image-tarball", "tar")
	_ = cmd.RegisterFlagCompletionFunc("ignore", cobra.NoFileCompletions)
	return cmd
}

func buildPackage(out io.Writer, flags buildFlags) error {
	files, examples, err := flags.files()
	if err != nil {
		return err
	}
	runtime, done, err := flags.runtime()
	if err != nil {
		return err
	}
	defer done()
	image, pkg, err := xpkg.Build(files, examples, runtime)
	if err != nil {
		return err
	}
	unannotated, err := image.Digest()
	if err != nil {
		return err
	}
	path := cmp.Or(flags.output, filepath.Join(flags.root, xpkg.FileName(pkg, unannotated)))
	if err := writePackage(path, image); err != nil {
		return err
	}
	pushed, err := xpkg.Annotate(image, nil)
	if err != nil {
		return err
	}
	digest, err := pushed.Digest()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s\n%s\n", path, digest)
	return err
}

// files are those of the package and the examples.
func (f buildFlags) files() (files, examples []xpkg.File, err error) {
	if info, err := os.Stat(f.root); err != nil {
		return nil, nil, err
	} else if !info.IsDir() {
		return nil, nil, &usageError{fmt.Errorf("%s is not a folder", f.root)}
	}
	for _, pattern := range f.ignore {
		if _, err := filepath.Match(pattern, ""); err != nil {
			return nil, nil, &usageError{fmt.Errorf("--ignore %q: %w", pattern, err)}
		}
	}
	dir := cmp.Or(f.examples, filepath.Join(f.root, "examples"))
	if files, err = f.read(f.root, dir); err != nil {
		return nil, nil, err
	}
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) && f.examples == "" {
		return files, nil, nil
	}
	examples, err = f.read(dir, "")
	return files, examples, err
}

// read reads the manifests below a folder, except those below another one.
func (f buildFlags) read(root, except string) ([]xpkg.File, error) {
	paths, err := filesBelow(root, func(path string) bool {
		return slices.Contains([]string{".yaml", ".yml"}, filepath.Ext(path)) && !f.leavesOut(root, path) && (except == "" || !isBelow(path, except))
	})
	if err != nil {
		return nil, err
	}
	if len(paths) > maxFiles {
		return nil, fmt.Errorf("%s has more than %d manifests", root, maxFiles)
	}
	var out []xpkg.File
	size := 0
	for _, path := range paths {
		text, err := readPart(path)
		if err != nil {
			return nil, err
		}
		if size += len(text); size > xpkg.MaxStream {
			return nil, fmt.Errorf("the manifests below %s have more than %d bytes", root, xpkg.MaxStream)
		}
		out = append(out, xpkg.File{Name: path, Text: text})
	}
	return out, nil
}

// leavesOut reports whether a file is in a hidden folder, or whether a pattern matches it or a folder that it is in.
func (f buildFlags) leavesOut(root, path string) bool {
	relative, err := filepath.Rel(root, path)
	if err != nil {
		return false
	}
	for at := relative; at != "."; at = filepath.Dir(at) {
		if at != relative && strings.HasPrefix(filepath.Base(at), ".") {
			return true
		}
		for _, pattern := range f.ignore {
			if matched, _ := filepath.Match(filepath.Clean(pattern), at); matched { // files has checked the pattern
				return true
			}
		}
	}
	return false
}

func isBelow(path, dir string) bool {
	path, errPath := filepath.Abs(path)
	dir, errDir := filepath.Abs(dir)
	return errPath == nil && errDir == nil && strings.HasPrefix(path, dir+string(filepath.Separator))
}

// runtime returns the image that the package runs, nil without one. It is read until done is called.
func (f buildFlags) runtime() (image v1.Image, done func(), err error) {
	done = func() {}
	switch {
	case f.tarball != "":
		if image, err = tarball.ImageFromPath(f.tarball, nil); err != nil {
			err = fmt.Errorf("%s is not the tarball of an image: %w", f.tarball, err)
		}
	case f.binary != "":
		program, err := os.Open(f.binary)
		if err != nil {
			return nil, done, err
		}
		done = func() { _ = program.Close() } // only read
		info, err := program.Stat()
		if err == nil {
			image, err = xpkg.ProgramImage(program, info.Size())
		}
		if err != nil {
			done()
			return nil, func() {}, fmt.Errorf("%s: %w", f.binary, err)
		}
	}
	return image, done, err
}

// writePackage writes a file at once, or none.
func writePackage(path string, image v1.Image) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".*"+xpkg.Extension)
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // without effect once it has its name
	err = tarball.Write(nil, image, f)
	if err == nil {
		err = f.Chmod(0o644)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
