package webhook

import (
	"cmp"
	"net"
	"net/url"
	"strconv"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/espalier-dev/espalier/internal/serving/install"
)

func (s *Server) endpoint(port int, authorities []byte) install.Endpoint {
	e := install.Endpoint{CABundle: authorities}
	if to := s.Options.Service; to != nil {
		port := int32(cmp.Or(to.Port, 443))
		e.Service = &apiextensionsv1.ServiceReference{Namespace: to.Namespace, Name: to.Name, Port: &port}
		return e
	}
	at, err := url.Parse(s.Options.URL)
	if err != nil {
		return e // addresses has validated the URL before
	}
	if at.Port() == "" {
		at.Host = net.JoinHostPort(at.Hostname(), strconv.Itoa(port))
	}
	at.Path = ""
	e.URL = at.String()
	return e
}
