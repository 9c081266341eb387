package catalog

import (
	"archive/zip"
	"crypto/sha256"
	"fmt"
	"hash/crc32"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/espalier-dev/espalier/providers/aws/hook/schema"
	"github.com/espalier-dev/espalier/providers/aws/naming"
	"github.com/espalier-dev/espalier/providers/aws/resourcetype"
)

// TestIndexDescribesArchive compares the files that the generator wrote with each other, so that neither can
// be edited by hand.
func TestIndexDescribesArchive(t *testing.T) {
	source := Schemas()
	if got := fmt.Sprintf("%x", sha256.Sum256([]byte(archive))); got != source.ArchiveSHA256 {
		t.Errorf("types.zip has the hash %s, and its index says %s", got, source.ArchiveSHA256)
	}
	for _, part := range []string{"-version " + source.Version, "-sha256 " + source.SHA256} {
		if doc, err := os.ReadFile("doc.go"); err != nil || !strings.Contains(string(doc), part) {
			t.Errorf("the index was not made with the arguments of go:generate: %s (%v)", part, err)
		}
	}
	reader, err := zip.NewReader(strings.NewReader(archive), int64(len(archive)))
	if err != nil {
		t.Fatal(err)
	}
	names := slices.DeleteFunc(Names(), func(name string) bool { return slices.Contains(schema.Names(), name) })
	if !slices.IsSorted(Names()) || len(names) != len(reader.File) {
		t.Fatalf("the index has %d types, and types.zip %d", len(names), len(reader.File))
	}
	for i, file := range reader.File {
		raw, err := Raw(names[i])
		if err != nil {
			t.Fatal(err)
		}
		if file.Name != strings.ReplaceAll(names[i], "::", "-")+".json" || crc32.ChecksumIEEE(raw) != file.CRC32 {
			t.Errorf("%s: the index leads to other bytes than those of %s", names[i], file.Name)
		}
	}
}

func TestEveryTypeCanBeServed(t *testing.T) {
	names := Names()
	if len(names) < 1700 {
		t.Errorf("there are only %d types", len(names))
	}
	if err := naming.Check(names); err != nil {
		t.Error(err)
	}
	for _, name := range names {
		got, err := Get(name)
		if err != nil {
			t.Error(err)
			continue
		}
		for _, verb := range []resourcetype.Verb{resourcetype.Create, resourcetype.Read, resourcetype.Delete} {
			if _, has := got.Handlers[verb]; !has || got.Name != name {
				t.Errorf("%s: has no handler %s", name, verb)
			}
		}
		for _, paths := range [][]resourcetype.Path{
			got.PrimaryIdentifier, got.ReadOnlyProperties, got.WriteOnlyProperties, got.CreateOnlyProperties,
			got.ConditionalCreateOnlyProperties,
		} {
			for _, path := range paths {
				if len(got.At(path)) == 0 {
					t.Errorf("%s: there is no property %s", name, path)
				}
			}
		}
		if regions := Regions(name); len(regions) == 0 || !slices.IsSorted(regions) {
			t.Errorf("%s: is in the regions %v", name, regions)
		}
		for _, clusterScoped := range []bool{false, true} {
			kind, err := naming.Of(name, clusterScoped)
			if err != nil {
				t.Error(err)
			}
			if found, ok := naming.Find(names, kind.GroupVersionKind().GroupKind()); !ok || found != kind {
				t.Errorf("%s: the kind %s stands for %v", name, kind.Kind, found)
			}
			if len(kind.Plural) > 63 || len(kind.ListKind) > 63 {
				t.Errorf("%s: names of more than 63 characters: %v", name, kind)
			}
		}
	}
}

func TestNamesOutsideTheCatalog(t *testing.T) {
	if Has("AWS::DAX::Cluster") || Regions("AWS::DAX::Cluster") != nil {
		t.Error("a type without handlers is in the catalog")
	}
	if _, err := Get("AWS::DAX::Cluster"); err == nil || !strings.Contains(err.Error(), "AWS::DAX::Cluster") {
		t.Errorf("want an error with the name of the type, got %v", err)
	}
	for name, others := range instead {
		if Has(name) {
			t.Errorf("%s is served", name)
		}
		for _, other := range others {
			if _, err := Get(name); !Has(other) || err == nil || !strings.Contains(err.Error(), other) {
				t.Errorf("%s: %v, and it is to name %s", name, err, other)
			}
		}
	}
	if err := Instead("AWS::EC2::VPC"); err != nil {
		t.Error(err)
	}
	if _, err := Match("AWS::[::*"); err == nil {
		t.Error("a malformed pattern is accepted")
	}
	got, err := Match("AWS::EKS::*")
	if err != nil || !slices.Contains(got, "AWS::EKS::Cluster") || slices.Contains(got, "AWS::EC2::VPC") {
		t.Errorf("got %v, %v", got, err)
	}
	if regions := Regions("AWS::EC2::VPC"); slices.Contains(regions, "us-iso-east-1") || !slices.Contains(regions, "eu-central-1") {
		t.Errorf("got the regions %v", regions)
	}
}

// TestUnusedTypesCostNothing measures what the index and one type keep in memory.
func TestUnusedTypesCostNothing(t *testing.T) {
	before := heap()
	p, err := parse(index)
	if err != nil {
		t.Fatal(err)
	}
	if kept := heap() - before; kept > 200<<10 {
		t.Errorf("the index keeps %d kB in memory", kept>>10)
	} else {
		t.Logf("the index keeps %d kB in memory", kept>>10)
	}
	runtime.KeepAlive(p)
	for _, name := range []string{"AWS::EC2::VPC", "AWS::S3::Bucket"} {
		Schemas()
		before = heap()
		got, err := Get(name)
		if err != nil {
			t.Fatal(err)
		}
		kept := heap() - before
		t.Logf("%s keeps %d kB in memory, of %d kB of JSON", name, kept>>10, len(must(Raw(name)))>>10)
		if kept > 1<<20 {
			t.Errorf("%s keeps %d kB in memory", name, kept>>10)
		}
		runtime.KeepAlive(got)
	}
}

func heap() int64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

func must(raw []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return raw
}
