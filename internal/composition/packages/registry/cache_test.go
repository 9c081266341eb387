package registry

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

func hashOf(content string) v1.Hash {
	sum := sha256.Sum256([]byte(content))
	return v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(sum[:])}
}

// smallCache is a cache of 1000 bytes.
func smallCache(t *testing.T) *Cache {
	t.Helper()
	c, err := OpenCache(t.TempDir(), 1000)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// put stores content that was last used some minutes ago.
func put(t *testing.T, c *Cache, content string, minutes int) v1.Hash {
	t.Helper()
	digest := hashOf(content)
	if err := c.Put(digest, int64(len(content)), strings.NewReader(content)); err != nil {
		t.Fatal(err)
	}
	used := time.Now().Add(-time.Duration(minutes) * time.Minute)
	if err := os.Chtimes(c.path(digest), used, used); err != nil {
		t.Fatal(err)
	}
	return digest
}

func has(t *testing.T, c *Cache, digest v1.Hash) bool {
	t.Helper()
	_, err := os.Stat(c.path(digest))
	return err == nil
}

func text(letter string, n int) string { return strings.Repeat(letter, n) }

func TestOnlyWhatWasAnnouncedIsStored(t *testing.T) {
	for name, tc := range map[string]struct {
		content string
		size    int64
		problem string
	}{
		"the content":        {"content", 7, ""},
		"other content":      {"comment", 7, "other content"},
		"less":               {"con", 7, "only 3 bytes"},
		"more":               {"content and more", 7, "more than 7 bytes"},
		"more than the room": {"content", 1001, "is full"},
	} {
		t.Run(name, func(t *testing.T) {
			c := smallCache(t)
			err := c.Put(hashOf("content"), tc.size, strings.NewReader(tc.content))
			if (err == nil) != (tc.problem == "") || err != nil && !strings.Contains(err.Error(), tc.problem) {
				t.Errorf("error %v", err)
			}
			if has(t, c, hashOf("content")) != (err == nil) {
				t.Error("it was stored nevertheless, or not")
			}
			if left, err := os.ReadDir(c.unfinished()); err != nil || len(left) > 0 {
				t.Errorf("unfinished files are left: %v, %v", left, err)
			}
		})
	}
}

func TestDamagedFilesAreMissing(t *testing.T) {
	for name, damage := range map[string]func(path string) error{
		"changed": func(path string) error { return os.WriteFile(path, []byte("comment"), 0o600) },
		"shorter": func(path string) error { return os.Truncate(path, 3) },
		"removed": os.Remove,
	} {
		t.Run(name, func(t *testing.T) {
			c := smallCache(t)
			digest := put(t, c, "content", 0)
			if err := damage(c.path(digest)); err != nil {
				t.Fatal(err)
			}
			if _, err := c.Open(digest); !errors.Is(err, errNotCached) {
				t.Errorf("error %v", err)
			}
			put(t, c, "content", 0)
			f, err := c.Open(digest)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if got, err := io.ReadAll(f); string(got) != "content" || err != nil {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
}

func TestTheLeastRecentlyUsedIsEvicted(t *testing.T) {
	c := smallCache(t)
	oldest, older, newer := put(t, c, text("a", 400), 30), put(t, c, text("b", 300), 20), put(t, c, text("c", 200), 10)
	f, err := c.Open(oldest) // which uses it
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	latest := put(t, c, text("d", 250), 0)
	for name, d := range map[string]v1.Hash{"used": oldest, "newer": newer, "latest": latest} {
		if !has(t, c, d) {
			t.Errorf("%s was evicted", name)
		}
	}
	if has(t, c, older) {
		t.Error("what was used least recently is still stored")
	}
}

func TestWhatIsPinnedOrInUseIsKept(t *testing.T) {
	c, err := OpenCache(t.TempDir(), 2000)
	if err != nil {
		t.Fatal(err)
	}
	layer, config, inUse := put(t, c, text("l", 400), 90), put(t, c, text("c", 300), 80), put(t, c, text("u", 300), 70)
	manifest := put(t, c, fmt.Sprintf(`{"config": {"digest": %q}, "layers": [{"digest": %q}]}`, config, layer), 60)
	index := put(t, c, fmt.Sprintf(`{"manifests": [{"digest": %q}]}`, manifest), 50)
	c.Pin(index)
	f, err := c.Open(inUse)
	if err != nil {
		t.Fatal(err)
	}
	other := put(t, c, text("o", 400), 40)
	put(t, c, text("n", 500), 30)
	if has(t, c, other) {
		t.Error("what is neither pinned nor in use is still stored")
	}
	for name, d := range map[string]v1.Hash{"layer": layer, "configuration": config, "manifest": manifest, "index": index, "what is in use": inUse} {
		if !has(t, c, d) {
			t.Errorf("%s was evicted", name)
		}
	}
	if err := c.Put(hashOf(text("x", 900)), 900, bytes.NewReader([]byte(text("x", 900)))); err == nil || !strings.Contains(err.Error(), "is full") {
		t.Errorf("error %v", err)
	}
	f.Close()
	c.Pin()
	put(t, c, text("x", 900), 0)
}

func TestUnfinishedFilesOfACrashAreDeleted(t *testing.T) {
	c := smallCache(t)
	for name, age := range map[string]time.Duration{"crashed": 48 * time.Hour, "running": time.Minute} {
		path := filepath.Join(c.unfinished(), name)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, time.Now().Add(-age), time.Now().Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := OpenCache(c.dir, c.max); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(c.unfinished()); err != nil || len(left) != 1 || left[0].Name() != "running" {
		t.Errorf("%v, %v", left, err)
	}
}

func TestTagsAreBounded(t *testing.T) {
	c := smallCache(t)
	for i := range maxTagRecords {
		if err := os.WriteFile(filepath.Join(c.tags(), fmt.Sprint(i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.SetTag("registry.example.org/a:v1", hashOf("a")); err != nil {
		t.Fatal(err)
	}
	if all, err := os.ReadDir(c.tags()); err != nil || len(all) != maxTagRecords-maxTagRecords/10+1 {
		t.Errorf("%d tags, %v", len(all), err)
	}
	if d, err := c.Tag("registry.example.org/a:v1"); err != nil || d != hashOf("a") {
		t.Errorf("%s, %v", d, err)
	}
	if _, err := c.Tag("registry.example.org/a:v2"); !errors.Is(err, errNotCached) {
		t.Errorf("error %v", err)
	}
}
