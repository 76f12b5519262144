# The formula of a release; `packaging/sums.sh` fills in the version and the digests.
class CuptiAudit < Formula
  desc "Will CUPTI load in this container image, for whom, and if not, why"
  homepage "https://github.com/OWNER/cupti-audit"
  version "VERSION"
  license any_of: ["MIT", "Apache-2.0"]

  on_linux do
    on_intel do
      url "https://github.com/OWNER/cupti-audit/releases/download/vVERSION/cupti-audit-VERSION-x86_64-linux.tar.gz"
      sha256 "SHA256_X86_64"
    end
    on_arm do
      url "https://github.com/OWNER/cupti-audit/releases/download/vVERSION/cupti-audit-VERSION-aarch64-linux.tar.gz"
      sha256 "SHA256_AARCH64"
    end
  end

  def install
    bin.install "cupti-audit"
    generate_completions_from_executable(bin/"cupti-audit", "completions")
    (man1/"cupti-audit.1").write Utils.safe_popen_read(bin/"cupti-audit", "man")
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/cupti-audit --version")
    # An image that cannot be read is exit code 2.
    shell_output("#{bin}/cupti-audit oci:#{testpath}/none", 2)
  end
end
