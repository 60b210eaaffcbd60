"""A farm's own certificate authority, and a certificate for each host: who has one is believed, nobody else.

    FOLDER/ca.pem             the authority's certificate, on every host
    FOLDER/ca-key.pem         its key, on the host that makes certificates alone
    FOLDER/host.pem           this host's certificate and
    FOLDER/host-key.pem       its key
    FOLDER/hosts/NAME/        what host NAME needs in its own folder: ca.pem, host.pem, host-key.pem

Keys are elliptic (P-256) and can be read by their owner alone.
"""

import datetime
import re
from collections.abc import Callable
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey as Key
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from farm import atomic_file, host_system
from runtime.errors import ConfigError

CA, CA_KEY, CERTIFICATE, KEY = "ca.pem", "ca-key.pem", "host.pem", "host-key.pem"
HOSTS = "hosts"
CA_DAYS, HOST_DAYS = 3650, 730
BEFORE = datetime.timedelta(hours=1)  # clocks of hosts differ
OWNER_ALONE, EVERYBODY = 0o600, 0o644
FOLDER_OF_KEYS = 0o700  # who can write there could put other keys in their place
_CA_USAGE = x509.KeyUsage(
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=True,
    encipher_only=False,
    decipher_only=False,
)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")

Now = Callable[[], datetime.datetime]


def default_folder() -> Path:
    """Where a user's certificates lie unless another folder is named."""
    return host_system.home_folder() / ".farm" / "cluster"


def utc_now() -> datetime.datetime:
    """The time, for certificates."""
    return datetime.datetime.now(datetime.UTC)


def create_authority(folder: Path, host: str, now: Now = utc_now) -> list[Path]:
    """Makes an authority, and the certificate of this host; the files. Raises ConfigError where there is one."""
    _check_name(host)
    existing = [name for name in (CA, CA_KEY, CERTIFICATE, KEY) if (folder / name).exists()]
    if existing:
        raise ConfigError(f"{folder / existing[0]}: exists already; `farm cluster host NAME` adds a host to it")
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name("farm cluster")
    constraints = x509.BasicConstraints(ca=True, path_length=0)
    builder = (
        _builder(name, name, key, key, now(), CA_DAYS)
        .add_extension(constraints, critical=True)
        .add_extension(_CA_USAGE, critical=True)
    )
    _write_pair(folder / CA, folder / CA_KEY, builder.sign(key, hashes.SHA256()), key)
    _make_host(folder, folder, host, now())
    return [folder / name for name in (CA, CA_KEY, CERTIFICATE, KEY)]


def create_host(folder: Path, host: str, now: Now = utc_now) -> Path:
    """Makes the certificate of another host; the folder to be copied there. Raises ConfigError where there is one."""
    _check_name(host)
    target = folder / HOSTS / host
    if target.exists():
        raise ConfigError(f"{target}: exists already; delete it to make another certificate for this host")
    _make_host(folder, target, host, now())
    with atomic_file.replacing(target / CA, EVERYBODY) as file:
        file.write((folder / CA).read_bytes())
    return target


def check_host_files(folder: Path, now: Now = utc_now) -> None:
    """Raises ConfigError where a host's files are missing, cannot be read, or have expired."""
    for name in (CA, CERTIFICATE, KEY):
        if not (folder / name).is_file():
            raise ConfigError(
                f"{folder / name}: is missing; `farm cluster init` makes it, or `farm cluster host NAME` on the host "
                "that has the authority, to be copied here"
            )
    for name in (CA, CERTIFICATE):
        ends = _read_certificate(folder / name).not_valid_after_utc
        if ends < now():
            raise ConfigError(
                f"{folder / name}: expired on {ends:%Y-%m-%d}; delete it and make another (`farm cluster --help`)"
            )


def _make_host(authority: Path, target: Path, host: str, now: datetime.datetime) -> None:
    """Writes a certificate that the authority signed, for both ends of a connection."""
    ca, ca_key = _read_authority(authority)
    key = ec.generate_private_key(ec.SECP256R1())
    usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
    builder = (
        _builder(_name(host), ca.subject, key, ca_key, now, HOST_DAYS)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
        .add_extension(usage, critical=False)
    )
    _write_pair(target / CERTIFICATE, target / KEY, builder.sign(ca_key, hashes.SHA256()), key)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: Key, issuer_key: Key, now: datetime.datetime, days: int
) -> x509.CertificateBuilder:
    """A certificate's names, times and key identifiers, which strict readers ask for."""
    signer = x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key())
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BEFORE)
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(signer, critical=False)
    )


def _read_authority(folder: Path) -> tuple[x509.Certificate, Key]:
    if not (folder / CA_KEY).is_file():
        raise ConfigError(f"{folder / CA_KEY}: no authority is here; `farm cluster init` makes one, on one host alone")
    try:
        key = serialization.load_pem_private_key((folder / CA_KEY).read_bytes(), None)
    except ValueError as error:
        raise ConfigError(f"{folder / CA_KEY}: is no private key: {error}") from None
    assert isinstance(key, Key)
    return _read_certificate(folder / CA), key


def _read_certificate(path: Path) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(path.read_bytes())
    except ValueError as error:
        raise ConfigError(f"{path}: is no certificate: {error}") from None


def _write_pair(certificate_file: Path, key_file: Path, certificate: x509.Certificate, key: Key) -> None:
    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    key_file.parent.mkdir(mode=FOLDER_OF_KEYS, parents=True, exist_ok=True)
    written = (
        (key_file, key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain), OWNER_ALONE),
        (certificate_file, certificate.public_bytes(pem), EVERYBODY),
    )
    for path, content, mode in written:
        with atomic_file.replacing(path, mode) as file:
            file.write(content)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _check_name(host: str) -> None:
    if not _NAME.fullmatch(host):
        raise ConfigError(f"{host!r}: a host's name has letters, digits, '.', '_' and '-'")
