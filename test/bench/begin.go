package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"

	"github.com/espalier-dev/espalier/internal/kube/embedded"
	"github.com/espalier-dev/espalier/internal/kube/wire"
)

//go:embed manifests/*.yaml
var manifests embed.FS

const (
	group     = "bench.espalier.dev"
	namespace = "default"
	manager   = "bench"
)

var (
	configMaps  = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	crds        = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	definitions = schema.GroupVersionResource{Group: "kro.run", Version: "v1alpha1", Resource: "resourcegraphdefinitions"}

	serviceAccounts = schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}
	roleBindings    = schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "rolebindings"}

	composites   = schema.GroupVersionResource{Group: "apiextensions.crossplane.io", Version: "v2", Resource: "compositeresourcedefinitions"}
	compositions = schema.GroupVersionResource{Group: "apiextensions.crossplane.io", Version: "v1", Resource: "compositions"}
)

// ours is a resource of the benchmark's API group.
func ours(plural string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: group, Version: "v1alpha1", Resource: plural}
}

// bench is one run: an API server, the controllers, and the results so far.
type bench struct {
	options
	plane     *embedded.ControlPlane
	dir       string
	client    dynamic.Interface
	discovery discovery.DiscoveryInterface
	engine    *engine
	// user is the user that the controllers impersonate; empty for the administrator.
	user string

	rows   []row
	counts []measuredRequests
	notes  []string
	// grown are the measures at several sizes, by what the sizes are of.
	grown map[string][]measure
}

// newBench starts an API server and the controllers, and applies the definitions.
func newBench(ctx context.Context, o options) (_ *bench, err error) {
	b := &bench{options: o}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.stop())
		}
	}()
	if b.dir, err = os.MkdirTemp("", "espalier-bench-"); err != nil {
		return nil, err
	}
	if b.plane, err = embedded.Start(ctx, embedded.Options{DataDir: filepath.Join(b.dir, "data"), NoFsync: !o.fsync}); err != nil {
		return nil, err
	}
	if b.client, err = b.anotherClient(); err != nil {
		return nil, err
	}
	if b.discovery, err = discovery.NewDiscoveryClientForConfig(b.plane.Config()); err != nil {
		return nil, err
	}
	if err = b.startEngine(ctx); err != nil {
		return nil, err
	}
	return b, b.applyManifests(ctx)
}

// stop stops what newBench has started.
func (b *bench) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	err := b.stopEngine()
	if b.plane != nil {
		err = errors.Join(err, b.plane.Stop(ctx))
	}
	if b.dir != "" {
		err = errors.Join(err, os.RemoveAll(b.dir))
	}
	return err
}

// anotherClient returns a client with a connection of its own, as the clients of other processes have.
func (b *bench) anotherClient() (dynamic.Interface, error) {
	config := b.plane.Config()
	config.Dial = new(net.Dialer).DialContext // client-go shares no connections between dialers
	return wire.NewClient(config, nil)
}

// resource is the benchmark's client of one resource.
func (b *bench) resource(gvr schema.GroupVersionResource) dynamic.ResourceInterface {
	if gvr.Group == group || gvr.Group == "" || gvr == roleBindings {
		return b.client.Resource(gvr).Namespace(namespace)
	}
	return b.client.Resource(gvr)
}

func (b *bench) applyManifests(ctx context.Context) error {
	resources := map[string]schema.GroupVersionResource{
		"CustomResourceDefinition": crds, "ResourceGraphDefinition": definitions,
		"CompositeResourceDefinition": composites, "Composition": compositions,
		"ServiceAccount": serviceAccounts, "RoleBinding": roleBindings,
	}
	objects, err := readManifests()
	if err != nil {
		return err
	}
	for _, o := range objects {
		gvr := resources[o.GetKind()]
		if _, err := b.resource(gvr).Apply(ctx, o.GetName(), o, metav1.ApplyOptions{FieldManager: manager, Force: true}); err != nil {
			return fmt.Errorf("apply %s: %w", o.GetName(), err)
		}
		for gvr, kind := range map[schema.GroupVersionResource]string{definitions: "Ready", composites: "Established"} {
			if gvr != resources[o.GetKind()] {
				continue
			}
			if err := b.awaitCondition(ctx, gvr, o.GetName(), kind); err != nil {
				return err
			}
		}
	}
	return nil
}

func readManifests() ([]*unstructured.Unstructured, error) {
	var out []*unstructured.Unstructured
	err := fs.WalkDir(manifests, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		file, err := manifests.Open(path)
		if err != nil {
			return err
		}
		defer file.Close()
		decoder := yaml.NewYAMLOrJSONDecoder(file, 4096)
		for {
			o := &unstructured.Unstructured{}
			switch err := decoder.Decode(&o.Object); {
			case errors.Is(err, io.EOF):
				return nil
			case err != nil:
				return fmt.Errorf("%s: %w", path, err)
			}
			out = append(out, o)
		}
	})
	return out, err
}
