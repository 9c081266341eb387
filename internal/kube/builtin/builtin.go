// Package builtin describes the kinds that are part of Kubernetes, as the embedded API server serves them: for work
// without a cluster, such as the validation of files.
//
// kinds.zip contains the OpenAPI documents of the API server, written by 'make builtin-kinds'. It is decoded as far as
// it is used.
package builtin

import (
	"archive/zip"
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/cel/openapi/resolver"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/espalier-dev/espalier/internal/object"
)

//go:embed kinds.zip
var archive []byte

// IndexFile is the file of the archive with an Index; every other file is an OpenAPI document, named by
// FileOf.
const IndexFile = "index.json"

// Index lists the built-in kinds.
type Index struct {
	// Version is the version of Kubernetes.
	Version string `json:"version"`
	Kinds   []Kind `json:"kinds"`
}

// Kind is a built-in kind.
type Kind struct {
	Group   string `json:"group,omitempty"`
	Version string `json:"version"`
	Kind    string `json:"kind"`
	// Plural is the name of its resource.
	Plural     string   `json:"plural"`
	ShortNames []string `json:"shortNames,omitempty"`
	Namespaced bool     `json:"namespaced,omitempty"`
}

// GroupVersionKind returns the kind's identity.
func (k Kind) GroupVersionKind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: k.Group, Version: k.Version, Kind: k.Kind}
}

// FileOf names the file of a group version's document.
func FileOf(gv schema.GroupVersion) string {
	if gv.Group == "" {
		return "core/" + gv.Version + ".json"
	}
	return gv.Group + "/" + gv.Version + ".json"
}

// Files returns the files of the archive by their names.
func Files() (map[string][]byte, error) {
	out := map[string][]byte{}
	for name, f := range load().files {
		r, err := f.Open()
		if err != nil {
			return nil, err
		}
		raw, err := io.ReadAll(r)
		if err := errors.Join(err, r.Close()); err != nil {
			return nil, err
		}
		out[name] = raw
	}
	return out, nil
}

// Document is an OpenAPI document, as far as the schemas of kinds need it.
type Document struct {
	Components struct {
		Schemas map[string]*spec.Schema `json:"schemas"`
	} `json:"components"`
}

type content struct {
	files map[string]*zip.File
	index Index
	kinds map[schema.GroupVersionKind]Kind

	mu        sync.Mutex
	documents map[schema.GroupVersion]*Document
	schemas   map[schema.GroupVersionKind]*spec.Schema
}

var load = sync.OnceValue(func() *content {
	c := &content{
		files: map[string]*zip.File{}, kinds: map[schema.GroupVersionKind]Kind{},
		documents: map[schema.GroupVersion]*Document{}, schemas: map[schema.GroupVersionKind]*spec.Schema{},
	}
	r, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	if err != nil {
		panic(fmt.Sprintf("kinds.zip is damaged: %v", err))
	}
	for _, f := range r.File {
		c.files[f.Name] = f
	}
	c.decode(IndexFile, &c.index)
	for _, k := range c.index.Kinds {
		c.kinds[k.GroupVersionKind()] = k
	}
	return c
})

// A test has read the archive as well.
func (c *content) decode(name string, into any) {
	f, err := c.files[name].Open()
	if err == nil {
		defer func() { _ = f.Close() }()
		var raw []byte
		if raw, err = io.ReadAll(f); err == nil {
			err = json.Unmarshal(raw, into)
		}
	}
	if err != nil {
		panic(fmt.Sprintf("%s of kinds.zip is damaged: %v", name, err))
	}
}

// Kinds returns all built-in kinds, sorted by group, version and kind. The caller must not change them.
func Kinds() []Kind { return load().index.Kinds }

// Lookup returns what a compiler needs to know of a built-in kind. False says that Kubernetes has no such
// kind; KindInfo.NeverServed then says that it has the group version. The schema is shared and must not be
// changed. It is safe for concurrent use.
func Lookup(gvk schema.GroupVersionKind) (object.KindInfo, bool) {
	c := load()
	kind, ok := c.kinds[gvk]
	if !ok {
		var siblings []string
		for _, k := range c.index.Kinds {
			if k.Group == gvk.Group && k.Version == gvk.Version {
				siblings = append(siblings, k.Kind)
			}
		}
		return object.KindInfo{NeverServed: len(siblings) > 0, Siblings: siblings}, false
	}
	return object.KindInfo{
		Namespaced: kind.Namespaced, NameRule: object.BuiltInNameRule(gvk.GroupKind()), Schema: c.schema(gvk), Revision: c.index.Version,
	}, true
}

// optional are fields that are required in the documents, and that the API server accepts objects without: it sets a default, or
// their zero value is valid.
var optional = map[string][]string{
	"batch.v1.PodFailurePolicy":           {"rules"},
	"core.v1.Event":                       {"metadata", "involvedObject"},
	"core.v1.HTTPHeader":                  {"value"},
	"core.v1.ISCSIPersistentVolumeSource": {"lun"},
	"core.v1.ISCSIVolumeSource":           {"lun"},
	"core.v1.LimitRangeSpec":              {"limits"},
	"core.v1.PreferredSchedulingTerm":     {"preference"},
	"core.v1.SleepAction":                 {"seconds"},
	"core.v1.Sysctl":                      {"value"},
	"storage.v1.CSIDriver":                {"spec"},
	"storage.v1.CSINode":                  {"spec"},
	"storage.v1.CSINodeSpec":              {"drivers"},
	"storage.v1.TokenRequest":             {"audience"},
}

// Types returns the types in the document of a version of a group that has built-in kinds, by their names. The caller may change
// the map, and not the types. It is safe for concurrent use.
func Types(gv schema.GroupVersion) map[string]*spec.Schema {
	c := load()
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.document(gv).Components.Schemas)
}

// The lock is held.
func (c *content) document(gv schema.GroupVersion) *Document {
	d := c.documents[gv]
	if d == nil {
		d = &Document{}
		c.decode(FileOf(gv), d)
		for name, fields := range optional {
			if s := d.Components.Schemas["io.k8s.api."+name]; s != nil {
				s.Required = slices.DeleteFunc(s.Required, func(field string) bool { return slices.Contains(fields, field) })
			}
		}
		c.documents[gv] = d
	}
	return d
}

// It resolves all references, and returns nil if the kind has no schema.
func (c *content) schema(gvk schema.GroupVersionKind) *spec.Schema {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s, ok := c.schemas[gvk]; ok {
		return s
	}
	d := c.document(gvk.GroupVersion())
	const prefix = "#/components/schemas/"
	for name, s := range d.Components.Schemas {
		var kinds []schema.GroupVersionKind
		if err := s.Extensions.GetObject("x-kubernetes-group-version-kind", &kinds); err != nil || !slices.Contains(kinds, gvk) {
			continue
		}
		resolved, err := resolver.PopulateRefs(func(ref string) (*spec.Schema, bool) {
			s, ok := d.Components.Schemas[strings.TrimPrefix(ref, prefix)]
			return s, ok
		}, name)
		if err != nil {
			panic(fmt.Sprintf("kinds.zip has no complete schema of %s: %v", gvk, err))
		}
		c.schemas[gvk] = resolved
		return resolved
	}
	c.schemas[gvk] = nil
	return nil
}
