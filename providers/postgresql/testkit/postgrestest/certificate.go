package postgrestest

import (
	"path/filepath"

	"github.com/espalier-dev/espalier/internal/testkit/certificate"
)

// writeCertificate creates a CA, and a server certificate for the name localhost.
func (s *Server) writeCertificate() error {
	authority, err := certificate.NewAuthority()
	if err != nil {
		return err
	}
	cert, key, err := authority.Issue("localhost")
	if err != nil {
		return err
	}
	s.CA = authority.PEM
	if err := s.write(filepath.Join(s.Dir, "server.crt"), cert); err != nil {
		return err
	}
	return s.write(filepath.Join(s.Dir, "server.key"), key)
}
