<?php
// Files, locks and calendars by sabre/dav, the library that Nextcloud, ownCloud and Baikal have WebDAV from.
// It is older than this PHP, which has much to say of it.
error_reporting(0);
date_default_timezone_set('UTC');
require_once 'Sabre/autoload.php';

use Sabre\CalDAV;
use Sabre\DAV;

const DATA = 'DATA';

/** Calendars of anybody, in one file. */
class Calendars extends CalDAV\Backend\AbstractBackend
{
    private function all()
    {
        return json_decode(@file_get_contents(DATA . '/calendars'), true) ?: [];
    }

    private function change($change)
    {
        $all = $this->all();
        $change($all);
        file_put_contents(DATA . '/calendars', json_encode($all));
    }

    public function getCalendarsForUser($principal)
    {
        $calendar = fn ($id) => ['id' => $id, 'uri' => $id, 'principaluri' => $principal];
        return array_map($calendar, array_map('strval', array_keys($this->all())));
    }

    public function createCalendar($principal, $id, array $properties)
    {
        $this->change(function (&$all) use ($id) { $all[$id] = []; });
    }

    public function deleteCalendar($id)
    {
        $this->change(function (&$all) use ($id) { unset($all[$id]); });
    }

    public function getCalendarObjects($id)
    {
        return array_map(fn ($uri) => $this->getCalendarObject($id, $uri), array_keys($this->all()[$id]));
    }

    public function getCalendarObject($id, $uri)
    {
        $data = $this->all()[$id][$uri] ?? null;
        return $data === null ? null : ['id' => $uri, 'uri' => $uri, 'calendardata' => $data,
            'calendarid' => $id, 'lastmodified' => 0, 'size' => strlen($data),
            'etag' => '"' . md5($data) . '"'];
    }

    public function createCalendarObject($id, $uri, $data)
    {
        $this->change(function (&$all) use ($id, $uri, $data) { $all[$id][$uri] = $data; });
    }

    public function updateCalendarObject($id, $uri, $data)
    {
        $this->createCalendarObject($id, $uri, $data);
    }

    public function calendarQuery($id, array $filters)
    {
        return array_keys($this->all()[$id]);
    }

    public function deleteCalendarObject($id, $uri)
    {
        $this->change(function (&$all) use ($id, $uri) { unset($all[$id][$uri]); });
    }
}

/** One user. */
class Users extends Sabre\DAVACL\PrincipalBackend\AbstractBackend
{
    public function getPrincipalsByPrefix($prefix)
    {
        return [['uri' => 'principals/ann']];
    }

    public function getPrincipalByPath($path)
    {
        return $path === 'principals/ann' ? ['uri' => $path] : null;
    }

    public function updatePrincipal($path, $mutations)
    {
        return false;
    }

    public function searchPrincipals($prefix, array $properties)
    {
        return [];
    }

    public function getGroupMemberSet($principal)
    {
        return [];
    }

    public function getGroupMembership($principal)
    {
        return [];
    }

    public function setGroupMemberSet($principal, array $members)
    {
    }
}

/** Takes events as they are: this sabre/dav is older than Debian's parser of calendars. */
class CalendarPlugin extends CalDAV\Plugin
{
    protected function validateICalendar(&$data, $path)
    {
        $data = is_resource($data) ? stream_get_contents($data) : $data;
    }
}

$users = new Users();
$server = new DAV\Server([
    new DAV\SimpleCollection('files', [new DAV\FSExt\Directory(DATA . '/files')]),
    new CalDAV\CalendarRootNode($users, new Calendars()),
]);
$server->setBaseUri('/');
$server->addPlugin(new DAV\Locks\Plugin(new DAV\Locks\Backend\File(DATA . '/locks')));
$server->addPlugin(new CalendarPlugin());
$server->exec();
