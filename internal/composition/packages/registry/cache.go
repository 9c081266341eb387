package registry

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

const (
	// maxTagRecords bounds the number of tags with a stored digest.
	maxTagRecords = 4096
	// staleLimit is how old an unfinished file is before it is deleted: its program crashed.
	staleLimit = 24 * time.Hour
)

// errNotCached is returned for what the cache does not contain.
var errNotCached = errors.New("not in the cache")

// Cache stores manifests and layers in a directory, by digest, and the digest of each tag. Programs can share it: files are complete from the
// moment that they have their names.
type Cache struct {
	dir string
	max int64

	mu     sync.Mutex
	pinned map[v1.Hash]bool
	inUse  map[v1.Hash]int
	// reserved is the bytes of what is being stored.
	reserved int64
}

// OpenCache opens a directory, which may not exist yet. It stores up to max bytes.
func OpenCache(dir string, max int64) (*Cache, error) {
	c := &Cache{dir: dir, max: max, inUse: map[v1.Hash]int{}}
	for _, below := range []string{c.blobs(), c.tags(), c.unfinished()} {
		if err := os.MkdirAll(below, 0o700); err != nil {
			return nil, fmt.Errorf("the cache of packages: %w", err)
		}
	}
	entries, err := os.ReadDir(c.unfinished())
	for _, e := range entries {
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > staleLimit {
			_ = os.Remove(filepath.Join(c.unfinished(), e.Name())) // another program may have done it
		}
	}
	return c, err
}

func (c *Cache) blobs() string      { return filepath.Join(c.dir, "blobs", "sha256") }
func (c *Cache) tags() string       { return filepath.Join(c.dir, "tags") }
func (c *Cache) unfinished() string { return filepath.Join(c.dir, "unfinished") }

func (c *Cache) path(digest v1.Hash) string { return filepath.Join(c.blobs(), digest.Hex) }

// Pin names everything that is never evicted: manifests, with the configurations and layers that they name.
func (c *Cache) Pin(digests ...v1.Hash) {
	pinned := map[v1.Hash]bool{}
	for _, d := range digests {
		pinned[d] = true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pinned = pinned
}

// Open returns what has a digest, once its content is checked. What is damaged is deleted, and counts as missing.
func (c *Cache) Open(digest v1.Hash) (io.ReadCloser, error) {
	if digest.Algorithm != "sha256" {
		return nil, fmt.Errorf("%s: %w", digest, errNotCached)
	}
	c.use(digest, 1)
	f, err := c.openChecked(digest)
	if err != nil {
		c.use(digest, -1)
		return nil, err
	}
	now := time.Now()
	_ = os.Chtimes(f.Name(), now, now) // the cache may be read-only
	return &blob{File: f, release: sync.OnceFunc(func() { c.use(digest, -1) })}, nil
}

func (c *Cache) openChecked(digest v1.Hash) (*os.File, error) {
	f, err := os.Open(c.path(digest))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", digest, errNotCached)
	}
	if err != nil {
		return nil, err
	}
	sum := sha256.New()
	if _, err = io.Copy(sum, f); err == nil && hex.EncodeToString(sum.Sum(nil)) == digest.Hex {
		_, err = f.Seek(0, io.SeekStart)
		return f, err
	}
	f.Close()
	if err == nil {
		err = fmt.Errorf("%s: %w: the file was damaged", digest, errNotCached)
		_ = os.Remove(f.Name()) // it is found damaged again, if that fails
	}
	return nil, err
}

func (c *Cache) use(digest v1.Hash, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.inUse[digest] += n; c.inUse[digest] == 0 {
		delete(c.inUse, digest)
	}
}

// blob is a file in use.
type blob struct {
	*os.File
	release func()
}

// Close implements io.Closer.
func (b *blob) Close() error {
	defer b.release()
	return b.File.Close()
}

// Put stores content of a size under its digest, or nothing if it has another size or digest. What was not used for the longest time is evicted
// to make room.
func (c *Cache) Put(digest v1.Hash, size int64, content io.Reader) error {
	if digest.Algorithm != "sha256" {
		return fmt.Errorf("the digest %s is not of SHA-256", digest)
	}
	c.reserve(size)
	defer c.reserve(-size)
	if err := c.makeRoom(); err != nil {
		return err
	}
	f, err := os.CreateTemp(c.unfinished(), "*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // without effect once it has its name
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(f, sum), io.LimitReader(content, size+1))
	got := hex.EncodeToString(sum.Sum(nil))
	switch {
	case err != nil:
	case n != size:
		err = fmt.Errorf("%s: the registry sent %s %d bytes", digest, map[bool]string{true: "more than", false: "only"}[n > size], min(n, size))
	case got != digest.Hex:
		err = fmt.Errorf("the registry sent other content for %s: its digest is sha256:%s", digest, got)
	default:
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), c.path(digest))
}

type cached struct {
	digest v1.Hash
	size   int64
	used   time.Time
}

func (c *Cache) reserve(bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reserved += bytes
}

// makeRoom evicts files until there is room for what is reserved.
func (c *Cache) makeRoom() error {
	entries, err := os.ReadDir(c.blobs())
	if err != nil {
		return err
	}
	kept, total := c.kept()
	var all []cached
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			all = append(all, cached{v1.Hash{Algorithm: "sha256", Hex: e.Name()}, info.Size(), info.ModTime()})
			total += info.Size()
		}
	}
	if total <= c.max {
		return nil
	}
	slices.SortFunc(all, func(a, b cached) int { return cmp.Or(a.used.Compare(b.used), cmp.Compare(a.digest.Hex, b.digest.Hex)) })
	for _, b := range all {
		if total <= c.max {
			break
		}
		if kept[b.digest] {
			continue
		}
		if err := os.Remove(c.path(b.digest)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		total -= b.size
	}
	if total > c.max {
		return fmt.Errorf("the cache of packages in %s is full: %d bytes more than its limit of %d would be in use", c.dir, total-c.max, c.max)
	}
	return nil
}

// kept is what is in use or pinned, with what pinned manifests name.
func (c *Cache) kept() (kept map[v1.Hash]bool, reserved int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	kept = map[v1.Hash]bool{}
	for d := range c.inUse {
		kept[d] = true
	}
	var keep func(d v1.Hash, nested int)
	keep = func(d v1.Hash, nested int) {
		kept[d] = true
		raw, err := os.ReadFile(c.path(d))
		if err != nil || nested == 0 {
			return
		}
		if m, err := parseManifest(raw); err == nil {
			for _, below := range m.Manifests {
				keep(below.Digest, nested-1)
			}
			for _, below := range append(m.Layers, m.Config) {
				kept[below.Digest] = true
			}
		}
	}
	for d := range c.pinned {
		keep(d, 2)
	}
	return kept, c.reserved
}

// tagRecord is which digest a tag had.
type tagRecord struct {
	Reference string `json:"reference"`
	Digest    string `json:"digest"`
}

func (c *Cache) tagPath(reference string) string {
	sum := sha256.Sum256([]byte(reference))
	return filepath.Join(c.tags(), hex.EncodeToString(sum[:]))
}

// Tag returns the digest that a reference by tag had when it was fetched last.
func (c *Cache) Tag(reference string) (v1.Hash, error) {
	raw, err := os.ReadFile(c.tagPath(reference))
	var record tagRecord
	if err == nil {
		err = json.Unmarshal(raw, &record)
	}
	if err != nil || record.Reference != reference {
		return v1.Hash{}, fmt.Errorf("%s: %w", reference, errNotCached)
	}
	return v1.NewHash(record.Digest)
}

// SetTag stores which digest a reference by tag has.
func (c *Cache) SetTag(reference string, digest v1.Hash) error {
	raw, err := json.Marshal(tagRecord{reference, digest.String()})
	if err != nil {
		return err
	}
	if err := c.forgetTags(); err != nil {
		return err
	}
	f, err := os.CreateTemp(c.unfinished(), "*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // without effect once it has its name
	_, err = f.Write(raw)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), c.tagPath(reference))
}

// forgetTags deletes the oldest tenth of the tags when there are too many.
func (c *Cache) forgetTags() error {
	entries, err := os.ReadDir(c.tags())
	if err != nil || len(entries) < maxTagRecords {
		return err
	}
	age := map[string]time.Time{}
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			age[e.Name()] = info.ModTime()
		}
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return age[a.Name()].Compare(age[b.Name()]) })
	for _, e := range entries[:len(entries)/10] {
		if err := os.Remove(filepath.Join(c.tags(), e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
