package definition

import (
	"fmt"
	"io/fs"
	"strings"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	rev "github.com/espalier-dev/espalier/api/revision/v1alpha1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/kube/crd"
	"github.com/espalier-dev/espalier/internal/serving/install"
)

// replaceCRD says how a CustomResourceDefinition gets all fields.
const replaceCRD = "Restart the controllers, which replace it; 'espalier run --check' says what they would do"

// maxNamedFields is for each CustomResourceDefinition of a message.
const maxNamedFields = 10

// unstoredFields knows which fields of this program the installed CustomResourceDefinitions lack. It is safe for
// concurrent use.
type unstoredFields struct {
	mu    sync.Mutex
	known map[schema.GroupKind]unstoredIn
}

// unstoredIn are the fields that a CustomResourceDefinition lacks in one generation.
type unstoredIn struct {
	uid        types.UID
	generation int64
	fields     []string
}

func (u *unstoredFields) of(kinds *kube.Kinds, kind schema.GroupKind) []string {
	c, exists := kinds.CRD(kind)
	if !exists {
		return nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if known := u.known[kind]; known.uid == c.UID && known.generation == c.Generation {
		return known.fields
	}
	out := unstoredIn{uid: c.UID, generation: c.Generation}
	if whole, exists := kinds.WholeCRD(kind); exists && ownCRDs()[kind] != nil {
		_, out.fields = install.MissingIn(whole, ownCRDs()[kind])
	}
	if u.known == nil {
		u.known = map[schema.GroupKind]unstoredIn{}
	}
	u.known[kind] = out
	return out.fields
}

// ownCRDs are the CustomResourceDefinitions of the dialect as this program installs them, by their kinds.
var ownCRDs = sync.OnceValue(func() map[schema.GroupKind]*apiextensionsv1.CustomResourceDefinition {
	out := map[schema.GroupKind]*apiextensionsv1.CustomResourceDefinition{}
	for _, files := range []fs.FS{v1alpha1.CRDs, rev.CRDs} {
		names, _ := fs.Glob(files, "crds/*.yaml")
		for _, name := range names {
			raw, err := fs.ReadFile(files, name)
			c := &apiextensionsv1.CustomResourceDefinition{}
			if err == nil && yaml.Unmarshal(raw, c) == nil {
				out[crd.GroupKind(c)] = c
			}
		}
	}
	return out
})

// markFieldsStored adds the condition FieldsStored if the API server drops fields of definitions or of revisions.
func (r *Dialect) markFieldsStored(set condition.Set, generation int64) condition.Set {
	var texts []string
	for _, kind := range []schema.GroupKind{r.Kind.GroupKind(), RevisionKind.GroupKind()} {
		fields := r.unstored.of(r.Kinds, kind)
		if len(fields) == 0 {
			continue
		}
		more := ""
		if n := len(fields) - maxNamedFields; n > 0 {
			fields, more = fields[:maxNamedFields], fmt.Sprintf(" and %d more", n)
		}
		texts = append(texts, fmt.Sprintf("that of %s lacks %s%s", kind.Kind, strings.Join(fields, ", "), more))
	}
	if len(texts) == 0 {
		return set.Remove(v1alpha1.DefinitionFieldsStored)
	}
	return set.Mark(v1alpha1.Condition{
		Type: v1alpha1.DefinitionFieldsStored, Status: condition.False, Reason: "SchemaOutdated", ObservedGeneration: generation,
		Message: "the API server drops fields, because another program has installed CustomResourceDefinitions: " + strings.Join(texts, "; ") + ". " + replaceCRD,
	}, r.Now())
}
