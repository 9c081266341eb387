package local

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// DefaultStoreBytes bounds the unpacked images that are kept.
const DefaultStoreBytes = 8 << 30

// staleLimit is how old an unfinished directory is before it is deleted: its program crashed.
const staleLimit = 24 * time.Hour

// Store keeps unpacked images in a directory, by digest. Programs can share it: a directory is complete from the moment
// that it has its name, and it is not deleted while a program uses it.
type Store struct {
	Dir string
	// MaxBytes bounds the images. Those in use can exceed it.
	MaxBytes int64
	limits   limits
}

// NewStore returns a store in a directory, which may not exist yet.
func NewStore(dir string) *Store {
	return &Store{Dir: dir, MaxBytes: DefaultStoreBytes, limits: limits{maxImageBytes, maxImageEntries}}
}

// record describes an unpacked image. It is written last.
type record struct {
	Bytes  int64          `json:"bytes"`
	Config *v1.ConfigFile `json:"config"`
}

// unpacked is an image in use.
type unpacked struct {
	record
	// root is the directory with its files.
	root    string
	release func()
}

const recordFile, rootDirectory = "image.json", "root"

// open returns an unpacked image. The caller must release it.
func (s *Store) open(ctx context.Context, image v1.Image) (*unpacked, error) {
	digest, err := image.Digest()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return nil, err
	}
	dir := filepath.Join(s.Dir, digest.Algorithm+"-"+digest.Hex)
	u, err := s.use(dir)
	if !errors.Is(err, fs.ErrNotExist) {
		return u, err
	}
	if err := s.add(ctx, image, dir); err != nil {
		return nil, fmt.Errorf("unpack its image: %w", err)
	}
	u, err = s.use(dir)
	if err == nil {
		s.evict()
	}
	return u, err
}

func (s *Store) use(dir string) (*unpacked, error) {
	release, err := lockShared(dir)
	if err != nil {
		return nil, err
	}
	u := &unpacked{root: filepath.Join(dir, rootDirectory), release: release}
	raw, err := os.ReadFile(filepath.Join(dir, recordFile))
	if err == nil {
		err = json.Unmarshal(raw, &u.record)
	}
	if err == nil && u.Config == nil {
		err = fmt.Errorf("%s is not complete; delete %s", recordFile, dir)
	}
	if err != nil {
		release()
		return nil, err
	}
	now := time.Now()
	return u, os.Chtimes(dir, now, now)
}

func (s *Store) add(ctx context.Context, image v1.Image, dir string) error {
	config, err := image.ConfigFile()
	if err != nil {
		return err
	}
	unfinished, err := os.MkdirTemp(s.Dir, "unfinished-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(unfinished)
	files := filepath.Join(unfinished, rootDirectory)
	if err := os.Mkdir(files, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(files)
	if err != nil {
		return err
	}
	bytes, err := unpack(ctx, root, image, s.limits)
	if err = errors.Join(err, root.Close(), os.Chmod(files, 0o755)); err != nil {
		return err
	}
	raw, err := json.Marshal(record{bytes, config})
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(unfinished, recordFile), raw, 0o600); err != nil {
		return err
	}
	err = os.Rename(unfinished, dir)
	if _, statErr := os.Stat(dir); statErr == nil {
		return nil // also if another program was first
	}
	return err
}

// evict deletes images that are not in use, those first that were not used for the longest time, until the rest is
// within the bound. An error only delays it.
func (s *Store) evict() {
	entries, err := os.ReadDir(s.Dir)
	if err != nil {
		return
	}
	type stored struct {
		dir   string
		used  time.Time
		bytes int64
	}
	var all []stored
	var total int64
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			continue
		}
		dir := filepath.Join(s.Dir, e.Name())
		if strings.HasPrefix(e.Name(), "unfinished-") {
			if time.Since(info.ModTime()) > staleLimit {
				_ = os.RemoveAll(dir)
			}
			continue
		}
		var r record
		if raw, err := os.ReadFile(filepath.Join(dir, recordFile)); err != nil || json.Unmarshal(raw, &r) != nil {
			continue
		}
		all, total = append(all, stored{dir, info.ModTime(), r.Bytes}), total+r.Bytes
	}
	slices.SortFunc(all, func(a, b stored) int { return cmp.Or(a.used.Compare(b.used), cmp.Compare(a.dir, b.dir)) })
	for _, i := range all {
		if total <= s.MaxBytes {
			return
		}
		if removeUnlessUsed(i.dir) {
			total -= i.bytes
		}
	}
}
