// Errors, strings and files that cross the boundary to the core.
#include "pensieve_shim.hpp"

#include "duckdb/common/exception/conversion_exception.hpp"
#include "duckdb/common/file_system.hpp"
#include "duckdb/common/local_file_system.hpp"
#include "duckdb/main/client_context.hpp"

namespace pensieve {

string TakeString(char *text) {
	if (!text) {
		return string();
	}
	string result(text);
	pns_string_free(text);
	return result;
}

vector<string> TakeTexts(PnsTexts *texts) {
	vector<string> result;
	if (!texts) {
		return result;
	}
	auto count = pns_texts_count(texts);
	for (uint64_t i = 0; i < count; i++) {
		uint64_t length = 0;
		auto text = pns_texts_get(texts, i, &length);
		result.emplace_back(text, length);
	}
	pns_texts_free(texts);
	return result;
}

vector<const char *> TextPointers(const vector<string> &texts) {
	vector<const char *> result;
	for (auto &text : texts) {
		result.push_back(text.c_str());
	}
	return result;
}

char *MallocMessage(const string &message) {
	auto result = static_cast<char *>(malloc(message.size() + 1));
	if (result) {
		memcpy(result, message.c_str(), message.size() + 1);
	}
	return result;
}

} // namespace pensieve

extern "C" void pensieve_host_string_free(char *message) {
	free(message);
}

namespace pensieve {

static void RefuseToSerialize(Serializer &, const optional_ptr<FunctionData>, const BoundTableFunction &function) {
	throw NotImplementedException("A scan by %s of an attached table cannot be serialized",
	                              function.GetName().GetIdentifierName());
}

static unique_ptr<FunctionData> RefuseToDeserialize(Deserializer &, BoundTableFunction &function) {
	throw NotImplementedException("A scan by %s of an attached table cannot be deserialized",
	                              function.GetName().GetIdentifierName());
}

void KeepInPlan(TableFunction &function) {
	function.SetSerializeCallback(RefuseToSerialize);
	function.SetDeserializeCallback(RefuseToDeserialize);
}

void ThrowError(int kind, char *message) {
	auto text = TakeString(message);
	switch (kind) {
	case PNS_INVALID_INPUT:
		throw InvalidInputException("%s", text);
	case PNS_IO:
		throw IOException("%s", text);
	case PNS_CORRUPT:
		throw InvalidInputException("%s", text);
	case PNS_UNSUPPORTED:
		throw NotImplementedException("%s", text);
	case PNS_CONFLICT:
		throw TransactionException("%s", text);
	case PNS_INTERRUPTED:
		throw InterruptException();
	default:
		throw IOException("pensieve: %s", text);
	}
}

Value GetSetting(ClientContext &context, const char *name) {
	Value result;
	if (!context.TryGetCurrentSetting(Identifier(name), result)) {
		return Value();
	}
	return result;
}

namespace {

//! A file handle of DuckDB that the core reads from.
struct HostFile {
	unique_ptr<FileHandle> handle;
	string path;

	static char *ReadAt(void *context, uint64_t offset, uint8_t *target, uint64_t length) {
		auto &file = *static_cast<HostFile *>(context);
		try {
			file.handle->Read(target, length, offset);
			return nullptr;
		} catch (std::exception &error) {
			return MallocMessage(ErrorData(error).RawMessage());
		} catch (...) {
			return MallocMessage("unknown error");
		}
	}

	static void Release(void *context) {
		delete static_cast<HostFile *>(context);
	}
};

} // namespace

bool IsRemote(const string &path) {
	return (FileSystem::IsRemoteFile(path) || StringUtil::Contains(path, "://")) &&
	       !StringUtil::StartsWith(path, "file:");
}

bool NeedsObjectStore(ClientContext &context, const string &path, const ErrorData &error) {
	static const char *SCHEMES[] = {"s3", "s3a", "gs", "gcs", "az", "azure", "abfs", "abfss", "http", "https"};
	auto end = path.find("://");
	auto scheme = path.substr(0, end == string::npos ? 0 : end);
	auto known = std::find(std::begin(SCHEMES), std::end(SCHEMES), scheme) != std::end(SCHEMES);
	if (!known || error.Type() == ExceptionType::PERMISSION) {
		return false;
	}
	string extension;
	if (FileSystem::IsRemoteFile(path, extension)) {
		// DuckDB knows who serves the scheme, and says so when nobody does; any other failure is that of who did
		return error.Type() == ExceptionType::MISSING_EXTENSION || error.Type() == ExceptionType::AUTOLOAD;
	}
	// a scheme that DuckDB knows nothing of, unless somebody registered a file system for it
	auto registered = FileSystem::GetFileSystem(context).ListSubSystems();
	return std::find(registered.begin(), registered.end(), scheme) == registered.end();
}

ReaderPtr OpenExtent(ClientContext &context, const OpenFileInfo &file, const string &format) {
	auto &fs = FileSystem::GetFileSystem(context);
	auto flags = FileFlags::FILE_FLAGS_READ | FileFlags::FILE_FLAGS_PARALLEL_ACCESS;
	PnsReader *reader = nullptr;
	char *error = nullptr;
	unique_ptr<FileHandle> handle;
	try {
		handle = fs.OpenFile(file, flags);
	} catch (std::exception &failure) {
		if (!NeedsObjectStore(context, file.path, ErrorData(failure))) {
			throw;
		}
		// no file system of DuckDB's serves this scheme: the core's own object store client does
		auto remote = RemoteConfiguration(context, file.path);
		Check(pns_reader_open(file.path.c_str(), format.c_str(), nullptr, remote.c_str(), &reader, &error), error);
		return ReaderPtr(reader);
	}
	if (handle->GetType() == FileType::FILE_TYPE_DIR) {
		throw IOException("Cannot read \"%s\": it is a directory; name the files in it, for example '%s/*.tlm'",
		                  file.path, file.path);
	}
	if (handle->file_system.GetName() == "LocalFileSystem" && handle->CanSeek()) {
		auto path = handle->GetPath();
		handle.reset();
		Check(pns_reader_open(path.c_str(), format.c_str(), nullptr, "", &reader, &error), error);
		return ReaderPtr(reader);
	}
	string version;
	try {
		version = fs.GetVersionTag(*handle);
	} catch (std::exception &) {
		// a file system that cannot say which version it opened gets no cached metadata: a time of modification says
		// too little
		version.clear();
	}
	auto host = new HostFile();
	PnsHostFile host_file;
	host_file.context = host;
	host_file.read_at = HostFile::ReadAt;
	host_file.release = HostFile::Release;
	host_file.size = handle->GetFileSize();
	host_file.version = version.c_str();
	host->path = file.path;
	host->handle = std::move(handle);
	// the core owns `host` from here on, also when it fails
	Check(pns_reader_open(file.path.c_str(), format.c_str(), &host_file, "", &reader, &error), error);
	return ReaderPtr(reader);
}

string QuoteJson(const string &text) {
	string out = "\"";
	for (auto c : text) {
		if (c == '"' || c == '\\') {
			out += '\\';
			out += c;
		} else if (static_cast<unsigned char>(c) < 0x20) {
			out += StringUtil::Format("\\u%04x", int(static_cast<unsigned char>(c)));
		} else {
			out += c;
		}
	}
	return out + "\"";
}

void AddScanMetrics(PnsScan *scan, TableFunctionGetMetricsInput &input) {
	auto summary = TakeTexts(pns_scan_summary(scan));
	for (idx_t i = 0; i + 1 < summary.size(); i += 2) {
		input.operator_metrics.AddExtraInfo(summary[i], summary[i + 1]);
	}
}

} // namespace pensieve
