package build_test

import (
	"archive/zip"
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/espalier-dev/espalier/providers/aws/catalog"
	"github.com/espalier-dev/espalier/providers/aws/catalog/build"
	"github.com/espalier-dev/espalier/providers/aws/hook/schema"
)

// wheel is a package with two types, one of which Cloud Control cannot create.
func wheel(t *testing.T) build.Wheel {
	t.Helper()
	return wheelOf(t, map[string]string{
		"version.json":             `{"schema_date": "2030-01-02"}`,
		"providers/us-east-1.json": `{"AWS::Test::Thing": "1", "AWS::Test::Fixed": "2"}`,
		"providers/eu-west-1.json": `{"AWS::Test::Thing": "1"}`,
		"resources/1.json":         `{"typeName": "AWS::Test::Thing", "description": "A thing.", "primaryIdentifier": ["/properties/Name"], "properties": {"Name": {"type": "string"}}, "handlers": {"create": {"permissions": []}, "read": {"permissions": []}, "delete": {"permissions": []}}, "$schema": "unused"}`,
		"resources/2.json":         `{"typeName": "AWS::Test::Fixed", "primaryIdentifier": ["/properties/Name"], "properties": {"Name": {"type": "string"}}, "handlers": {"read": {"permissions": []}}}`,
	})
}

func wheelOf(t *testing.T, files map[string]string) build.Wheel {
	t.Helper()
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for name, text := range files {
		file, err := w.Create("cfnlint/data/schemas/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := file.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return build.Wheel{Version: "9.9.9", Content: out.Bytes()}
}

func TestAWheelIsReadWithinLimits(t *testing.T) {
	w := wheelOf(t, map[string]string{"version.json": `{"schema_date": "` + strings.Repeat("0", 60<<20) + `"}`})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := build.From(w)
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; err == nil || !strings.Contains(err.Error(), "version.json is too large") || got > 100<<20 {
		t.Errorf("%d bytes are allocated for %d: %v", got, len(w.Content), err)
	}
}

// TestAFileReplacesTheSchemas writes a file from a package, and uses it. Other tests of this package must not
// need the embedded schemas.
func TestAFileReplacesTheSchemas(t *testing.T) {
	w := wheel(t)
	schemas, err := build.From(w)
	if err != nil {
		t.Fatal(err)
	}
	file, err := schemas.File()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "types.zip")
	for name, damaged := range map[string][]byte{"half of it": file[:len(file)/2], "the archive without its index": schemas.Archive, "no zip": []byte("text")} {
		if err := os.WriteFile(path, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := catalog.UseFile(path); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := catalog.UseFile(path); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(append(schema.Names(), "AWS::Test::Thing"), catalog.Names()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"eu-west-1", "us-east-1"}, catalog.Regions("AWS::Test::Thing")); diff != "" {
		t.Error(diff)
	}
	if s := catalog.Schemas(); s.Version != "9.9.9" || s.SHA256 != w.SHA256() || s.SchemaDate != "2030-01-02" {
		t.Errorf("source %+v", s)
	}
	thing, err := catalog.Get("AWS::Test::Thing")
	if err != nil || thing.Description != "A thing." {
		t.Errorf("got %+v, %v", thing, err)
	}
	if raw, err := catalog.Raw("AWS::Test::Thing"); err != nil || strings.Contains(string(raw), "unused") {
		t.Errorf("got %s, %v", raw, err)
	}
}

func TestAnotherFileIsNotAWheel(t *testing.T) {
	path := filepath.Join(t.TempDir(), "other-1.0.whl")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := build.Open(path); err == nil {
		t.Error("it is accepted")
	}
}
