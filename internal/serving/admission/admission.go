// Package admission has the ValidatingAdmissionPolicies that keep users from getting more
// than their own permissions through definitions, and installs them. The API server evaluates
// them itself: they need no webhook.
// See docs/design/0010-accounts-and-permissions.md.
package admission

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/kube/rbac"
	"github.com/espalier-dev/espalier/internal/object"
)

//go:embed policies/*.yaml
var files embed.FS

// Files returns the files with the policies that validate.
func Files() fs.FS {
	policies, err := fs.Sub(files, "policies")
	if err != nil {
		panic(err) // the folder is embedded
	}
	return policies
}

// DigestAnnotation identifies the content that Install has written. An object without it is
// someone else's, such as a chart's, and is left alone.
const DigestAnnotation = "espalier.dev/policy-digest"

// Policies returns the policies that validate, with their bindings.
func Policies() ([]*unstructured.Unstructured, error) { return read(Files()) }

func read(files fs.FS) ([]*unstructured.Unstructured, error) {
	var out []*unstructured.Unstructured
	err := fs.WalkDir(files, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		raw, err := fs.ReadFile(files, path)
		if err != nil {
			return err
		}
		documents := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(raw), len(raw))
		for {
			o := &unstructured.Unstructured{}
			if err := documents.Decode(&o.Object); errors.Is(err, io.EOF) {
				return nil
			} else if err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
			out = append(out, o)
		}
	})
	return out, err
}

// Permissions are what Install needs.
func Permissions() ([]rbac.Permission, error) {
	policies, err := Policies()
	if err != nil {
		return nil, err
	}
	var out []rbac.Permission
	for _, o := range policies {
		group, resource := o.GroupVersionKind().Group, resourceOf(o)
		out = append(out, rbac.PermissionsFor(group, resource, "create")...)
		out = append(out, rbac.Object{Name: o.GetName()}.Permissions(group, resource, "get", "patch")...)
	}
	return out, nil
}

func resourceOf(o *unstructured.Unstructured) string {
	if o.GetKind() == "ValidatingAdmissionPolicyBinding" {
		return "validatingadmissionpolicybindings"
	}
	return "validatingadmissionpolicies"
}

// Cluster reads and writes objects; a *kube.Client does.
type Cluster interface {
	Get(ctx context.Context, kind schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error)
	Create(ctx context.Context, o *unstructured.Unstructured, manager string) (*unstructured.Unstructured, error)
	Update(ctx context.Context, o *unstructured.Unstructured, uid types.UID, manager string) (*unstructured.Unstructured, error)
}

// Install creates the policies that do not exist, and updates those that an earlier release has
// installed. Changes of an administrator last until the next release changes the policy. The
// error names each policy that could not be installed.
func Install(ctx context.Context, cluster Cluster) error {
	policies, err := Policies()
	if err != nil {
		return err
	}
	var failed []error
	for _, o := range policies {
		if err := install(ctx, cluster, o); err != nil {
			failed = append(failed, fmt.Errorf("install %s %s: %w", o.GetKind(), o.GetName(), err))
		}
	}
	return errors.Join(failed...)
}

func install(ctx context.Context, cluster Cluster, o *unstructured.Unstructured) error {
	digest := object.Digest(o.Object)
	o.SetAnnotations(map[string]string{DigestAnnotation: digest})
	err := installOnce(ctx, cluster, o, digest)
	if apierrors.IsConflict(err) {
		err = installOnce(ctx, cluster, o, digest) // several processes start at the same time
	}
	return err
}

func installOnce(ctx context.Context, cluster Cluster, o *unstructured.Unstructured, digest string) error {
	current, err := cluster.Get(ctx, o.GroupVersionKind(), "", o.GetName())
	switch {
	case apierrors.IsNotFound(err):
		_, err = cluster.Create(ctx, o, v1alpha1.InstanceManager)
		return err
	case err != nil:
		return err
	}
	if installed, ours := current.GetAnnotations()[DigestAnnotation]; !ours || installed == digest {
		return nil
	}
	_, err = cluster.Update(ctx, o, current.GetUID(), v1alpha1.InstanceManager)
	return err
}
