package catalog

import (
	"compress/flate"
	_ "embed"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/espalier-dev/espalier/providers/aws/hook/schema"
	"github.com/espalier-dev/espalier/providers/aws/override"
	"github.com/espalier-dev/espalier/providers/aws/resourcetype"
)

var (
	//go:embed types.zip
	archive string
	//go:embed types.tsv
	index string
)

// Source is where the schemas are from.
type Source struct {
	// Package, Version and SHA256 identify the file on PyPI that was downloaded.
	Package, Version, SHA256 string
	// SchemaDate is when the schemas were taken from AWS.
	SchemaDate string
	// ArchiveSHA256 is the hash of types.zip.
	ArchiveSHA256 string
}

// entry is a line of the index: where the archive has a type, and the regions that have the type.
type entry struct {
	offset, compressed, size int
	regions                  string
	// own is the schema of a type that hooks serve and the archive lacks.
	own []byte
}

// parsed is the index. Its strings are parts of the embedded one.
type parsed struct {
	source  Source
	names   []string
	entries []entry
	archive string
}

// read is what the other functions read. UseFile replaces it.
var read = sync.OnceValue(func() parsed {
	p, err := parse(index)
	if err != nil {
		panic("the index of resource types is damaged: " + err.Error()) // a test has read it
	}
	p.archive = archive
	return p.withHandlers()
})

// withHandlers adds the types that hooks serve instead of the Cloud Control API. They are in the regions of
// AWS::EC2::VPC.
func (p parsed) withHandlers() parsed {
	everywhere := ""
	if i, ok := slices.BinarySearch(p.names, "AWS::EC2::VPC"); ok {
		everywhere = p.entries[i].regions
	}
	for _, name := range schema.Names() {
		i, ok := slices.BinarySearch(p.names, name)
		if ok {
			continue // the Cloud Control API serves it by now, and the hook its verbs
		}
		p.names = slices.Insert(p.names, i, name)
		p.entries = slices.Insert(p.entries, i, entry{regions: everywhere, own: schema.Raw(name)})
	}
	return p
}

// The first line has the source; then there are lines of sets of regions, which begin with "@", and of types, sorted by
// name.
func parse(index string) (parsed, error) {
	var p parsed
	sets := map[string]string{}
	p.names = make([]string, 0, strings.Count(index, "\n"))
	p.entries = make([]entry, 0, cap(p.names))
	for line := range strings.Lines(index) {
		field := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		want := 5
		if strings.HasPrefix(field[0], "@") {
			want = 2
		}
		switch {
		case len(field) != want:
			return p, fmt.Errorf("line %q has %d fields; it needs %d", strings.TrimSpace(line), len(field), want)
		case p.source.Package == "":
			p.source = Source{field[0], field[1], field[2], field[3], field[4]}
		case strings.HasPrefix(field[0], "@"):
			sets[field[0]] = field[1]
		default:
			var numbers [3]int
			for i := range numbers {
				var err error
				if numbers[i], err = strconv.Atoi(field[i+1]); err != nil {
					return p, err
				}
			}
			p.names = append(p.names, field[0])
			p.entries = append(p.entries, entry{offset: numbers[0], compressed: numbers[1], size: numbers[2], regions: sets[field[4]]})
		}
	}
	return p, nil
}

// Schemas returns where the schemas are from.
func Schemas() Source { return read().source }

// Names returns the names of all types, sorted.
func Names() []string { return slices.Clone(read().names) }

// Has reports whether there is a type.
func Has(name string) bool {
	_, ok := slices.BinarySearch(read().names, name)
	return ok
}

// Get reads the schema of a type, with the corrections of package override. Each call reads it again.
func Get(name string) (*resourcetype.Type, error) {
	raw, err := Raw(name)
	if err != nil {
		return nil, err
	}
	t, err := resourcetype.Parse(raw)
	if err != nil {
		return nil, err
	}
	override.Apply(t)
	return t, nil
}

// Raw returns the schema of a type as AWS publishes it, in JSON.
func Raw(name string) ([]byte, error) {
	p := read()
	i, ok := slices.BinarySearch(p.names, name)
	if err := Instead(name); err != nil {
		return nil, err
	}
	if !ok {
		return nil, fmt.Errorf("resource type %q: the Cloud Control API does not serve it, or the schemas of %s do not have it",
			name, p.source.SchemaDate)
	}
	e := p.entries[i]
	if e.own != nil {
		return e.own, nil
	}
	reader := flate.NewReader(strings.NewReader(p.archive[e.offset : e.offset+e.compressed]))
	raw := make([]byte, e.size)
	if _, err := io.ReadFull(reader, raw); err != nil {
		return nil, fmt.Errorf("read the schema of the resource type %q: %w", name, err)
	}
	return raw, nil
}

// Regions returns the regions that are known to have a type, sorted. Regions of isolated partitions are never among
// them, because AWS does not publish their types.
func Regions(name string) []string {
	p := read()
	i, ok := slices.BinarySearch(p.names, name)
	if !ok {
		return nil
	}
	return strings.Split(p.entries[i].regions, " ")
}

// Match returns the names of the types that a pattern matches, sorted. In a pattern such as AWS::EC2::* the
// character * stands for any characters.
func Match(pattern string) ([]string, error) {
	if _, err := path.Match(pattern, ""); err != nil {
		return nil, fmt.Errorf("pattern %q of resource types: %w", pattern, err)
	}
	var out []string
	for _, name := range read().names {
		if ok, _ := path.Match(pattern, name); ok {
			out = append(out, name)
		}
	}
	return out, nil
}
