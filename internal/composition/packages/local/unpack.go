package local

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// limits bound what an image may unpack to.
type limits struct {
	bytes   int64
	entries int
}

const (
	// maxImageBytes bounds the bytes of an unpacked image, with all files that a later layer deletes.
	maxImageBytes = 4 << 30
	// maxImageEntries bounds the entries of all layers of an image.
	maxImageEntries = 500_000
	// maxImageLayers bounds the layers of an image.
	maxImageLayers = 256
	// maxImagePath bounds the bytes of a path in an image.
	maxImagePath = 4096
	// maxImageLinks bounds the symbolic links that a path in an image leads through.
	maxImageLinks = 40
)

// The names of entries that delete something of the layers below.
const (
	whiteout       = ".wh."
	opaqueWhiteout = ".wh..wh..opq"
)

// unpacker writes the layers of an image below a directory. Owners, times, privileges and devices are left out: every
// file is readable, and executable if the image has it so. No path of the image leads out of the directory.
type unpacker struct {
	root *os.Root
	left limits
	used int64
	// written are the paths that the current layer has written, with their parents.
	written map[string]bool
}

// unpack returns the number of bytes that the image has unpacked to.
func unpack(ctx context.Context, root *os.Root, image v1.Image, l limits) (int64, error) {
	layers, err := image.Layers()
	if err != nil {
		return 0, err
	}
	if len(layers) > maxImageLayers {
		return 0, fmt.Errorf("it has %d layers, more than %d", len(layers), maxImageLayers)
	}
	u := unpacker{root: root, left: l}
	for i, layer := range layers {
		if err := u.unpackLayer(ctx, layer); err != nil {
			return 0, fmt.Errorf("layer %d of %d: %w", i+1, len(layers), err)
		}
	}
	return u.used, u.addMountPoints()
}

func (u *unpacker) unpackLayer(ctx context.Context, layer v1.Layer) error {
	content, err := layer.Uncompressed()
	if err != nil {
		return err
	}
	defer content.Close()
	u.written = map[string]bool{}
	stream := &boundedReader{ctx: ctx, from: content, left: u.left.bytes + 2<<20}
	archive := tar.NewReader(stream)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			// The end of the stream verifies the layer's digest.
			_, err = io.Copy(io.Discard, stream)
			return err
		}
		if err != nil {
			return err
		}
		if err := u.count(header); err != nil {
			return err
		}
		if err := u.entry(header, archive); err != nil {
			return fmt.Errorf("entry %q: %w", shortened(header.Name), err)
		}
	}
}

func (u *unpacker) count(header *tar.Header) error {
	u.left.entries--
	u.left.bytes -= header.Size
	u.used += header.Size
	switch {
	case u.left.entries < 0:
		return errors.New("it has more than the allowed number of files")
	case u.left.bytes < 0 || header.Size < 0:
		return errors.New("it is larger than allowed, once unpacked")
	}
	return nil
}

func (u *unpacker) entry(header *tar.Header, content io.Reader) error {
	name, err := cleanName(header.Name)
	if err != nil || name == "." {
		return err
	}
	parent, err := resolve(u.root, path.Dir(name))
	if err != nil {
		return err
	}
	base := path.Base(name)
	if deleted, ok := strings.CutPrefix(base, whiteout); ok {
		return u.whiteOut(parent, base, deleted)
	}
	if err := u.root.MkdirAll(parent, 0o755); err != nil {
		return err
	}
	target := path.Join(parent, base)
	for p := target; p != "."; p = path.Dir(p) {
		u.written[p] = true
	}
	return u.write(header, target, content)
}

func (u *unpacker) write(header *tar.Header, target string, content io.Reader) error {
	existing, err := u.root.Lstat(target)
	exists := err == nil
	if header.Typeflag == tar.TypeDir && exists && existing.IsDir() {
		return nil
	}
	switch header.Typeflag {
	case tar.TypeDir, tar.TypeReg, tar.TypeSymlink, tar.TypeLink:
	default:
		return nil // devices, pipes and metadata of archives
	}
	if header.Typeflag == tar.TypeLink {
		return u.link(header.Linkname, target, exists)
	}
	if exists {
		if err := u.root.RemoveAll(target); err != nil {
			return err
		}
	}
	switch header.Typeflag {
	case tar.TypeDir:
		return u.root.Mkdir(target, 0o755)
	case tar.TypeSymlink:
		if len(header.Linkname) > maxImagePath {
			return errors.New("its target is too long")
		}
		return u.root.Symlink(header.Linkname, target)
	}
	return u.file(target, header.Mode&0o111 != 0, content)
}

func (u *unpacker) file(target string, executable bool, content io.Reader) error {
	mode := fs.FileMode(0o644)
	if executable {
		mode = 0o755
	}
	f, err := u.root.OpenFile(target, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, content)
	return errors.Join(err, f.Chmod(mode), f.Close()) // Chmod, because the umask has cleared bits
}

// link makes a hard link to a file of the image, not to the target of a symbolic link.
func (u *unpacker) link(to, target string, exists bool) error {
	name, err := cleanName(to)
	if err != nil {
		return fmt.Errorf("its target: %w", err)
	}
	parent, err := resolve(u.root, path.Dir(name))
	if err != nil {
		return err
	}
	source := path.Join(parent, path.Base(name))
	info, err := u.root.Lstat(source)
	if err != nil || info.IsDir() {
		return fmt.Errorf("it is a hard link to %q, which is no file of the image", shortened(to))
	}
	if source == target {
		return nil
	}
	if exists {
		if err := u.root.RemoveAll(target); err != nil {
			return err
		}
	}
	return u.root.Link(source, target)
}

// whiteOut deletes what the layers below have.
func (u *unpacker) whiteOut(parent, base, deleted string) error {
	switch {
	case base == opaqueWhiteout:
		return u.removeLower(parent, true)
	case strings.HasPrefix(deleted, whiteout):
		return nil // metadata of a storage driver
	case deleted == "" || deleted == "." || deleted == "..":
		return errors.New("it deletes no file")
	}
	return u.removeLower(path.Join(parent, deleted), false)
}

// removeLower removes a path except for what the current layer has written there.
func (u *unpacker) removeLower(target string, onlyContent bool) error {
	if !onlyContent && !u.written[target] {
		return u.root.RemoveAll(target)
	}
	info, err := u.root.Lstat(target)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !info.IsDir() {
		return nil
	}
	if err != nil {
		return err
	}
	entries, err := fs.ReadDir(u.root.FS(), target)
	for _, e := range entries {
		err = errors.Join(err, u.removeLower(path.Join(target, e.Name()), false))
	}
	return err
}

// Directories and files that exist in every root, for what is mounted or copied there.
const (
	ownDirectory = ".espalier"
	tmpDirectory = "tmp"
)

var (
	mountDirectories = []string{ownDirectory, tmpDirectory, "proc", "dev"}
	mountFiles       = []string{"etc/resolv.conf", "etc/hosts"}
)

func (u *unpacker) addMountPoints() error {
	for _, name := range mountDirectories {
		info, err := u.root.Lstat(name)
		if err == nil && info.IsDir() {
			continue
		}
		if err := errors.Join(u.root.RemoveAll(name), u.root.Mkdir(name, 0o755)); err != nil {
			return err
		}
	}
	etc, err := resolve(u.root, "etc")
	if err != nil {
		return err
	}
	if err := u.root.MkdirAll(etc, 0o755); err != nil {
		return err
	}
	for _, name := range mountFiles {
		name = path.Join(etc, path.Base(name))
		if info, err := u.root.Lstat(name); err == nil && info.Mode().IsRegular() {
			continue
		}
		if err := errors.Join(u.root.RemoveAll(name), u.root.WriteFile(name, nil, 0o644)); err != nil {
			return err
		}
	}
	return nil
}

// cleanName returns a path of an archive relative to the root.
func cleanName(name string) (string, error) {
	switch {
	case len(name) > maxImagePath:
		return "", errors.New("the path is too long")
	case strings.ContainsRune(name, 0):
		return "", errors.New("the path is invalid")
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == ".." {
			return "", errors.New("the path leaves the image")
		}
	}
	return path.Join(".", strings.TrimLeft(name, "/")), nil
}

// resolve follows the symbolic links of a path, each of them below the root, like a process that has it as its root. It
// returns a path without links. What does not exist is no link.
func resolve(root *os.Root, name string) (string, error) {
	done, rest, links := ".", strings.Split(name, "/"), 0
	for len(rest) > 0 {
		part := rest[0]
		rest = rest[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			done = path.Dir(done)
			continue
		}
		next := path.Join(done, part)
		info, err := root.Lstat(next)
		if err != nil || info.Mode()&fs.ModeSymlink == 0 {
			done = next
			continue
		}
		target, err := root.Readlink(next)
		if err != nil {
			return "", err
		}
		if links++; links > maxImageLinks {
			return "", fmt.Errorf("%q leads through too many symbolic links", shortened(name))
		}
		if path.IsAbs(target) {
			done = "."
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	if len(done) > maxImagePath {
		return "", errors.New("the path is too long")
	}
	return done, nil
}

// boundedReader ends with an error after a number of bytes, or when the context is done.
type boundedReader struct {
	ctx  context.Context
	from io.Reader
	left int64
}

func (r *boundedReader) Read(p []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, context.Cause(r.ctx)
	}
	if r.left <= 0 {
		return 0, errors.New("it is larger than allowed, once unpacked")
	}
	n, err := r.from.Read(p[:min(int64(len(p)), r.left)])
	r.left -= int64(n)
	return n, err
}

func shortened(name string) string {
	if len(name) > 200 {
		return name[:200] + "…"
	}
	return name
}
