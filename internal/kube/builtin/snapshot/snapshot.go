// Package snapshot reads the built-in kinds of an API server, as the archive of package builtin contains them.
package snapshot

import (
	"archive/zip"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"github.com/espalier-dev/espalier/internal/kube/builtin"
)

// Read returns the files of the archive by their names.
func Read(client discovery.DiscoveryInterface) (map[string][]byte, error) {
	version, err := client.ServerVersion()
	if err != nil {
		return nil, err
	}
	index := builtin.Index{Version: version.GitVersion}
	_, lists, err := client.ServerGroupsAndResources()
	if err != nil {
		return nil, err
	}
	paths, err := client.OpenAPIV3().Paths()
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, err
		}
		if strings.Contains(gv.Group, ".") && !strings.HasSuffix(gv.Group, ".k8s.io") {
			continue // of a CustomResourceDefinition
		}
		kinds := kindsOf(gv, list.APIResources)
		if len(kinds) == 0 {
			continue
		}
		index.Kinds = append(index.Kinds, kinds...)
		path := "apis/" + list.GroupVersion
		if gv.Group == "" {
			path = "api/" + gv.Version
		}
		raw, err := paths[path].Schema(runtime.ContentTypeJSON)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		var document builtin.Document
		if err := json.Unmarshal(raw, &document); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if files[builtin.FileOf(gv)], err = json.Marshal(document); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(index.Kinds, func(a, b builtin.Kind) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Version, b.Version), cmp.Compare(a.Kind, b.Kind))
	})
	files[builtin.IndexFile], err = json.Marshal(index)
	return files, err
}

// Only kinds of objects that can be stored are listed.
func kindsOf(gv schema.GroupVersion, resources []metav1.APIResource) []builtin.Kind {
	var out []builtin.Kind
	for _, r := range resources {
		if strings.Contains(r.Name, "/") || !slices.Contains(r.Verbs, "get") || !slices.Contains(r.Verbs, "create") {
			continue
		}
		out = append(out, builtin.Kind{Group: gv.Group, Version: gv.Version, Kind: r.Kind, Plural: r.Name, ShortNames: r.ShortNames, Namespaced: r.Namespaced})
	}
	return out
}

// Pack writes the archive: the same files give the same bytes.
func Pack(files map[string][]byte) []byte {
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		f, err := w.Create(name)
		if err == nil {
			_, err = f.Write(files[name])
		}
		if err != nil {
			panic(err) // a buffer has no errors
		}
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	return out.Bytes()
}
