package account

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/providers/aws/v1alpha1"
	"github.com/espalier-dev/espalier/sdk/managed"
	"github.com/espalier-dev/espalier/sdk/managed/external"
)

var (
	secretKind    = schema.GroupVersionKind{Version: "v1", Kind: "Secret"}
	namespaceKind = schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}
)

// It reads the provider configuration of a managed resource, with its Secrets, and what it allows the managed resource.
func (o Options) read(objects managed.Objects, m *unstructured.Unstructured) (settings, sharing, error) {
	name, _, _ := unstructured.NestedString(m.Object, "spec", "providerConfigRef", "name")
	kind, _, _ := unstructured.NestedString(m.Object, "spec", "providerConfigRef", "kind")
	name, kind = cmp.Or(name, "default"), cmp.Or(kind, v1alpha1.ClusterProviderConfigKind)
	from := reader{objects: objects}
	switch {
	case kind == v1alpha1.ProviderConfigKind && m.GetNamespace() != "":
		from.namespace = m.GetNamespace()
	case kind == v1alpha1.ProviderConfigKind:
		return settings{}, sharing{}, fmt.Errorf("spec.providerConfigRef.kind is %s, which belongs to a namespace; a cluster-scoped managed resource needs a %s",
			kind, v1alpha1.ClusterProviderConfigKind)
	case kind != v1alpha1.ClusterProviderConfigKind:
		return settings{}, sharing{}, fmt.Errorf("spec.providerConfigRef.kind is %q; it must be %s or %s", kind, v1alpha1.ClusterProviderConfigKind,
			v1alpha1.ProviderConfigKind)
	}
	config, err := objects.Get(v1alpha1.GroupVersion.WithKind(kind), from.namespace, name)
	if err != nil {
		return settings{}, sharing{}, err
	}
	if config == nil {
		return settings{}, sharing{}, fmt.Errorf("%s %s of spec.providerConfigRef does not exist", kind, name)
	}
	var spec v1alpha1.ClusterProviderConfigSpec
	raw, _, _ := unstructured.NestedMap(config.Object, "spec")
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(raw, &spec); err != nil {
		return settings{}, sharing{}, fmt.Errorf("read %s %s: %w", kind, name, err)
	}
	var shared sharing
	if from.namespace == "" && m.GetNamespace() != "" {
		shared = sharing{Config: kind + " " + name, Types: spec.AllowedTypes, Allow: spec.Allow}
		err := checkSharing(objects, m, shared.Config, spec.AllowedNamespaces)
		var denied *external.NotAllowedError
		switch {
		case m.GetDeletionTimestamp() != nil && errors.As(err, &denied):
			shared.Denied = denied.Message
		case err != nil:
			return settings{}, sharing{}, err
		}
	}
	s := settings{Config: kind + " " + name, Namespace: from.namespace, Spec: spec.ProviderConfigSpec}
	if err := o.check(s); err != nil {
		return settings{}, sharing{}, err
	}
	if err := from.secrets(&s); err != nil {
		return settings{}, sharing{}, fmt.Errorf("%s: %w", s.Config, err)
	}
	return s, shared, nil
}

// checkSharing returns an error unless a configuration allows the namespace of a managed resource.
func checkSharing(objects managed.Objects, m *unstructured.Unstructured, config string, allowed *v1alpha1.AllowedNamespaces) error {
	var namespaceLabels map[string]string
	if allowed != nil && allowed.Selector != nil {
		namespace, err := objects.Get(namespaceKind, "", m.GetNamespace())
		if err != nil {
			return err
		}
		if namespace != nil {
			namespaceLabels = namespace.GetLabels()
		}
	}
	return checkNamespace(config, m.GetNamespace(), allowed, namespaceLabels)
}

// reader reads the Secrets that a configuration refers to. The Secrets of a ProviderConfig must be in its namespace.
type reader struct {
	objects   managed.Objects
	namespace string
}

func (r reader) secrets(s *settings) error {
	if ref := s.Spec.Credentials.SecretRef; ref != nil && s.Spec.Credentials.Source == v1alpha1.CredentialsSecret {
		name, data, err := r.secret(*ref)
		if err != nil {
			return fmt.Errorf("spec.credentials.secretRef: %w", err)
		}
		s.AccessKey = accessKey{
			ID:     cmp.Or(data["accessKeyId"], data["AWS_ACCESS_KEY_ID"], data["aws_access_key_id"]),
			Secret: cmp.Or(data["secretAccessKey"], data["AWS_SECRET_ACCESS_KEY"], data["aws_secret_access_key"]),
			Token:  cmp.Or(data["sessionToken"], data["AWS_SESSION_TOKEN"], data["aws_session_token"]),
		}
		if s.AccessKey.ID == "" || s.AccessKey.Secret == "" {
			return fmt.Errorf(`spec.credentials.secretRef: the Secret %s has no value for the key "accessKeyId" or "secretAccessKey"`, name)
		}
	}
	if s.Spec.Endpoint != nil && s.Spec.Endpoint.CASecretRef != nil {
		ref := *s.Spec.Endpoint.CASecretRef
		name, data, err := r.secret(ref.SecretReference)
		if err != nil {
			return fmt.Errorf("spec.endpoint.caSecretRef: %w", err)
		}
		if s.CA = data[cmp.Or(ref.Key, "ca.crt")]; s.CA == "" {
			return fmt.Errorf("spec.endpoint.caSecretRef: the Secret %s has no value for the key %q", name, cmp.Or(ref.Key, "ca.crt"))
		}
	}
	return nil
}

// name is the Secret's namespace and name.
func (r reader) secret(ref v1alpha1.SecretReference) (name string, data map[string]string, err error) {
	namespace := r.namespace
	switch {
	case namespace == "" && ref.Namespace == "":
		return "", nil, fmt.Errorf("the reference to the Secret %s needs a namespace, because a ClusterProviderConfig has none", ref.Name)
	case namespace == "":
		namespace = ref.Namespace
	case ref.Namespace != "" && ref.Namespace != namespace:
		return "", nil, fmt.Errorf("the Secret %s is in namespace %s; a ProviderConfig can only refer to Secrets in its own", ref.Name, ref.Namespace)
	}
	name = namespace + "/" + ref.Name
	o, err := r.objects.Get(secretKind, namespace, ref.Name)
	if err != nil {
		return "", nil, err
	}
	if o == nil {
		return "", nil, fmt.Errorf("the Secret %s does not exist", name)
	}
	encoded, _, _ := unstructured.NestedStringMap(o.Object, "data")
	data = make(map[string]string, len(encoded))
	for key, value := range encoded {
		if raw, err := base64.StdEncoding.DecodeString(value); err == nil {
			data[key] = string(raw)
		}
	}
	return name, data, nil
}
