package server

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/api/apiextensions"
	"github.com/espalier-dev/espalier/api/pkg"
	revisions "github.com/espalier-dev/espalier/api/revision/v1alpha1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/serving/install"
)

// Dialect is an API of definitions: kro's or Crossplane's.
type Dialect string

// The dialects: kro's definitions, and Crossplane's.
const (
	Graph       Dialect = "graph"
	Composition Dialect = "composition"
)

// Dialects are all dialects.
var Dialects = []Dialect{Graph, Composition}

// ParseDialects reads the names of dialects.
func ParseDialects(names []string) ([]Dialect, error) {
	var out []Dialect
	for _, name := range names {
		d := Dialect(strings.TrimSpace(name))
		if !slices.Contains(Dialects, d) {
			return nil, fmt.Errorf("unknown dialect %q; the dialects are %s and %s", name, Graph, Composition)
		}
		out = append(out, d)
	}
	return out, nil
}

// definitions is the name of the CustomResourceDefinition of a dialect's definitions. The
// program that has installed it serves the dialect, or did.
func (d Dialect) definitions() string {
	if d == Composition {
		return "compositeresourcedefinitions.apiextensions.crossplane.io"
	}
	return "resourcegraphdefinitions.kro.run"
}

// kinds are the CustomResourceDefinitions of a dialect.
func (d Dialect) kinds() []fs.FS {
	if d == Composition {
		return []fs.FS{pkg.CRDs, apiextensions.CRDs}
	}
	return []fs.FS{v1alpha1.CRDs, revisions.CRDs}
}

// chooseDialects decides which dialects are served: the configured ones, or else all whose
// definitions no other program has installed. Two programs that serve the same definitions
// would undo each other's work. The notes explain which dialect is not served.
func chooseDialects(configured []Dialect, installed func(name string) (*apiextensionsv1.CustomResourceDefinition, bool)) (served []Dialect, notes []string) {
	if len(configured) > 0 {
		return configured, nil
	}
	for _, d := range Dialects {
		if c, exists := installed(d.definitions()); exists && install.IsForeign(c) {
			notes = append(notes, fmt.Sprintf("the %s dialect is not served: CustomResourceDefinition %s was installed by another program, which might be serving it. "+
				"Once that program is stopped, name the dialect in --dialects", d, d.definitions()))
			continue
		}
		served = append(served, d)
	}
	return served, notes
}

// dialects are the served dialects, which are chosen once the kinds of the cluster are known.
// It is safe for concurrent use.
type dialects struct {
	configured []Dialect

	mu      sync.Mutex
	served  []Dialect
	reasons []string
}

func (d *dialects) choose(installed func(name string) (*apiextensionsv1.CustomResourceDefinition, bool)) []Dialect {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.served, d.reasons = chooseDialects(d.configured, installed)
	return d.served
}

func (d *dialects) serves(one Dialect) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Contains(d.served, one)
}

func (d *dialects) notes() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.reasons)
}

// InstalledDialects returns the dialects whose definitions are installed in a cluster, by any
// program.
func InstalledDialects(ctx context.Context, config *rest.Config) ([]Dialect, error) {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connect to the API server: %w", err)
	}
	var out []Dialect
	for _, d := range Dialects {
		_, err := client.Resource(apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")).Get(ctx, d.definitions(), metav1.GetOptions{})
		switch {
		case err == nil:
			out = append(out, d)
		case !apierrors.IsNotFound(err):
			return nil, fmt.Errorf("read CustomResourceDefinition %s: %w", d.definitions(), err)
		}
	}
	return out, nil
}
