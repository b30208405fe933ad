// The files of a scan: listed, and each with a number that stays.
#include "scan.hpp"

#include "duckdb/common/multi_file/multi_file_list.hpp"
#include "duckdb/common/opener_file_system.hpp"
#include "duckdb/planner/table_filter_set.hpp"

namespace pensieve {

shared_ptr<MultiFileList> ExtentFileReader::CreateFileList(ClientContext &context, const vector<string> &paths,
                                                           const FileGlobInput &glob_input) {
	try {
		return MultiFileReader::CreateFileList(context, paths, glob_input);
	} catch (std::exception &failure) {
		ErrorData error(failure);
		auto &opener = static_cast<OpenerFileSystem &>(FileSystem::GetFileSystem(context));
		for (auto &path : paths) {
			// DuckDB gave up at the first of them
			opener.VerifyCanAccessFile(path);
			if (!NeedsObjectStore(context, path, error)) {
				throw;
			}
		}
	}
	vector<OpenFileInfo> files;
	for (auto &path : paths) {
		PnsTexts *listed = nullptr;
		char *error = nullptr;
		Check(pns_glob(path.c_str(), RemoteConfiguration(context, path).c_str(), &listed, &error), error);
		for (auto &file : TakeTexts(listed)) {
			files.emplace_back(file);
		}
	}
	if (files.empty() && !glob_input.AllowsEmpty()) {
		throw IOException("No files found that match the pattern \"%s\"", StringUtil::Join(paths, "\", \""));
	}
	return make_shared_ptr<SimpleMultiFileList>(std::move(files));
}

unique_ptr<MultiFileReader> ExtentFileReader::Copy() const {
	auto result = make_uniq<ExtentFileReader>();
	result->function_name = function_name;
	return std::move(result);
}

unique_ptr<MultiFileReader> ExtentFileReader::Create(const BoundTableFunction &function) {
	auto result = make_uniq<ExtentFileReader>();
	result->function_name = function.GetName();
	return std::move(result);
}

static constexpr const char *FILE_INDEX_OPTION = "pensieve_file_index";

vector<OpenFileInfo> IndexedFiles(const MultiFileList &files) {
	auto result = files.GetAllFiles();
	for (idx_t i = 0; i < result.size(); i++) {
		auto &info = result[i].extended_info;
		if (info && info->options.find(FILE_INDEX_OPTION) != info->options.end()) {
			continue;
		}
		info = info ? make_shared_ptr<ExtendedOpenFileInfo>(*info) : make_shared_ptr<ExtendedOpenFileInfo>();
		info->options[FILE_INDEX_OPTION] = Value::UBIGINT(i);
	}
	return result;
}

bool FiltersByFileIndex(const vector<ColumnIndex> &columns, const TableFilterSet &filters) {
	for (auto &entry : filters) {
		auto index = entry.GetIndex().GetIndex();
		if (index < columns.size() &&
		    columns[index].GetPrimaryIndex() == MultiFileReader::COLUMN_IDENTIFIER_FILE_INDEX) {
			return true;
		}
	}
	return false;
}

unique_ptr<MultiFileList> ExtentFileReader::DynamicFilterPushdown(const MultiFileList &files,
                                                                  MultiFileDynamicPushdownInfo &pushdown_info) {
	if (FiltersByFileIndex(pushdown_info.column_indexes, pushdown_info.filters)) {
		return nullptr;
	}
	if (!pushdown_info.options.hive_partitioning && !pushdown_info.options.filename) {
		return nullptr;
	}
	return MultiFileReader::DynamicFilterPushdown(SimpleMultiFileList(IndexedFiles(files)), pushdown_info);
}

void ExtentFileReader::FinalizeBind(MultiFileReaderData &reader_data, const MultiFileOptions &file_options,
                                    const MultiFileReaderBindData &options,
                                    const vector<MultiFileColumnDefinition> &global_columns,
                                    const vector<ColumnIndex> &global_column_ids, ClientContext &context,
                                    optional_ptr<MultiFileReaderGlobalState> global_state) {
	MultiFileReader::FinalizeBind(reader_data, file_options, options, global_columns, global_column_ids, context,
	                              global_state);
	auto &info = reader_data.reader->file.extended_info;
	idx_t index;
	if (!info || !info->TryGetOption(FILE_INDEX_OPTION, index)) {
		return;
	}
	for (auto &entry : reader_data.constant_map) {
		auto &column = global_column_ids[entry.column_idx.GetIndex()];
		if (column.GetPrimaryIndex() == COLUMN_IDENTIFIER_FILE_INDEX) {
			entry.value = Value::UBIGINT(index);
		}
	}
}

} // namespace pensieve
